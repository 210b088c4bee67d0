// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/pointwise_program.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {

namespace {

void add_reductions(std::vector<Sample>& s) {
  const auto add = [&](std::string program, std::vector<SampleInput> inputs, bool gradient = true) {
    s.push_back({.op = "pointwise_reduction",
                 .inputs = std::move(inputs),
                 .attrs = {{"program", program}},
                 .gradient = gradient});
  };
  // Row lengths near those of pieces, vectors and parts; inputs broadcast in all ways.
  for (int64_t n : {1, 3, 31, 32, 257, 1023, 1025, 2060})
    add("mul x0 x1; sigmoid s0; add s1 x2; sum s2 dim=-1",
        {{f32, {5, n}}, {f32, {5, 1}}, {f32, {}}});
  add("sub x0 x1; mul s0 s0; mean s1", {{f32, {41, 821}}, {f32, {41, 821}}});
  add("sub x0 x1; mul s0 s0; sum s1 dim=0,2 keepdim=true", {{f32, {7, 3, 90}}, {f32, {3, 1}}});
  add("sub x0 x1; mul s0 s0; mean s1 dim=1", {{f32, {5, 1, 6}}, {f32, {9, 6}}});
  // Columns: few, more than a tile, and with many rows.
  add("mul x0 x1; sum s0 dim=0", {{f32, {50, 3}, 0, 0.3}, {f32, {50, 3}, 0, 0.3}});
  add("mul x0 x1; sum s0 dim=0", {{f32, {33, 301}, 0, 0.3}, {f32, {301}, 0, 0.3}});
  add("mul x0 x1; tanh s0; sum s1 dim=0 keepdim=true",
      {{f32, {2100, 24}, 0, 0.1}, {f32, {2100, 1}, 0, 0.1}});
  add("mul x0 x1; norm s0 ord=3.0 dim=0,2", {{f32, {11, 9, 2, 12}, 0.5, 1}, {f32, {12}, 0.5, 1}});
  for (const char* last : {"prod s0 dim=0", "amax s0 dim=-1", "amin s0 dim=0 keepdim=true",
                           "var s0 dim=0,1 correction=0.0", "norm s0 dim=1", "norm s0 ord=inf"})
    add(str_cat("mul x0 x1; ", last), {{f32, {4, 70}, 0.9, 1.1}, {f32, {70}, 0.9, 1.1}}, false);
  add("gt x0 x1; any s0 dim=1", {{f32, {9, 600}}, {f32, {}, 0.99, 0.99}}, false);
  add("gt x0 x1; all s0", {{f32, {9, 60}}, {f32, {}, -2, -2}}, false);
  add("mul x0 x1; argmax s0 dim=1", {{i32, {9, 700}, -99, 99}, {i32, {9, 1}, -1, 1}}, false);
  add("mul x0 x1; argmin s0", {{i64, {9, 70}, -99, 99}, {i64, {}, 1, 1}}, false);
  add("mul x0 x1; sum s0 dim=1", {{u8, {3, 1500}, 0, 255}, {u8, {}, 3, 3}}, false);
  add("bitwise_and x0 x1; sum s0 dim=0", {{boolean, {90, 40}, 0, 1}, {boolean, {40}, 0, 1}}, false);
  // No elements, one element, and a 0-d tensor.
  add("neg x0; sum s0 dim=1", {{f32, {3, 0}}});
  add("neg x0; sum s0 dim=1", {{f32, {0, 3}}});
  add("neg x0; sum s0 dim=0,1", {{f32, {5, 0}}});
  add("neg x0; mean s0 dim=0,2", {{f32, {5, 3, 0}}});
  add("neg x0; exp s0; mean s1 dim=0,1", {{f32, {1, 1}}});
  add("exp x0; mul s0 x1; sum s1", {{f32, {}}, {f32, {}}});
}

}  // namespace

std::vector<Sample> pointwise_program() {
  std::vector<Sample> s;
  add_reductions(s);
  const auto add = [&](const char* program, std::vector<SampleInput> inputs, bool gradient = true) {
    s.push_back({.op = "pointwise_program",
                 .inputs = std::move(inputs),
                 .attrs = {{"program", program}},
                 .gradient = gradient});
  };
  // Lengths near those of pieces; each input broadcasts in another way.
  for (int64_t n : {1, 17, 255, 256, 257, 1031})
    add("mul x0 x1; sigmoid s0; add s1 x2", {{f32, {3, n}}, {f32, {3, 1}}, {f32, {}}});
  add("add x0 x1; tanh s0; mul s1 s1; sub s2 x0", {{f32, {5, 1, 7}}, {f32, {4, 7}}});
  add("neg x0; exp s0", {{f32, {0, 3}}});
  add("exp x0; mul s0 x1", {{f32, {}}, {f32, {}}});
  add("leaky_relu x0 negative_slope=0.25; gelu s0 approximate=tanh", {{f32, {3, 40}}});
  // Results of different dtypes and sizes, and omitted inputs.
  add("gt x0 x1; where s0 x2 x0; clamp s1 - x1", {{f32, {2, 300}}, {f32, {300}}, {f32, {2, 1}}},
      false);
  add("add x0 x1; cast s0 dtype=f32; cast s1 dtype=u8", {{i64, {3, 90}, 0, 50}, {i64, {90}, 0, 9}},
      false);
  add("cast x0 dtype=f64; exp s0; cast s1 dtype=bf16; mul s2 s2", {{f32, {3, 90}}}, false);
  add("mul x0 x1; add s0 x2; bitwise_and s1 x3",
      {{i32, {9, 3}, -9, 9}, {i32, {3}, -9, 9}, {i32, {}, 0, 9}, {i32, {9, 1}, 0, 255}});
  // As many inputs as a program can have, and many live results.
  add("add x0 x1; add x2 x3; add x4 x5; add x6 x7; sub x0 x7; sub x1 x6; sub x2 x5; sub x3 x4; "
      "mul s0 s1; mul s2 s3; mul s4 s5; mul s6 s7; add s8 s9; add s10 s11; mul s12 s13; neg s14",
      {{f32, {2, 70}},
       {f32, {70}},
       {f32, {2, 1}},
       {f32, {}},
       {f32, {2, 70}},
       {f32, {70}},
       {f32, {2, 1}},
       {f32, {2, 70}}});
  // As many steps and live results as a program can have.
  std::string program = "neg x0";
  for (int k = 1; k < 16; ++k) program += str_cat("; mul x0 s", k - 1);
  for (int k = 0; k < 15; ++k) program += str_cat("; add s", k, " s", k + 15);
  add((program + "; abs s30").c_str(), {{f32, {3, 700}, 0, 0.5}}, false);
  return s;
}

}  // namespace hg::test::samples
