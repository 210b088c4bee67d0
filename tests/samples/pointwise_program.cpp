// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/pointwise_program.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> pointwise_program() {
  std::vector<Sample> s;
  const auto add = [&](const char* program, std::vector<SampleInput> inputs, bool gradient = true) {
    s.push_back({.op = "pointwise_program",
                 .inputs = std::move(inputs),
                 .attrs = {{"program", program}},
                 .gradient = gradient});
  };
  // Lengths beside those of the pieces, each input broadcast in another way.
  for (int64_t n : {1, 17, 255, 256, 257, 1031})
    add("mul x0 x1; sigmoid s0; add s1 x2", {{f32, {3, n}}, {f32, {3, 1}}, {f32, {}}});
  add("add x0 x1; tanh s0; mul s1 s1; sub s2 x0", {{f32, {5, 1, 7}}, {f32, {4, 7}}});
  add("neg x0; exp s0", {{f32, {0, 3}}});
  add("exp x0; mul s0 x1", {{f32, {}}, {f32, {}}});
  add("leaky_relu x0 negative_slope=0.25; gelu s0 approximate=tanh", {{f32, {3, 40}}});
  // Results of other dtypes, with their own sizes, and inputs that are left out.
  add("gt x0 x1; where s0 x2 x0; clamp s1 - x1", {{f32, {2, 300}}, {f32, {300}}, {f32, {2, 1}}},
      false);
  add("add x0 x1; cast s0 dtype=f32; cast s1 dtype=u8", {{i64, {3, 90}, 0, 50}, {i64, {90}, 0, 9}},
      false);
  add("cast x0 dtype=f64; exp s0; cast s1 dtype=bf16; mul s2 s2", {{f32, {3, 90}}}, false);
  add("mul x0 x1; add s0 x2; bitwise_and s1 x3",
      {{i32, {9, 3}, -9, 9}, {i32, {3}, -9, 9}, {i32, {}, 0, 9}, {i32, {9, 1}, 0, 255}});
  // As many results alive at once as a program can have, of as many inputs.
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
  return s;
}

}  // namespace hg::test::samples
