// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/low_bits.cpp.
#include <algorithm>
#include <string>

#include "lib/table/cell.h"
#include "lib/table/packing.h"
#include "tests/ops/samples.h"

namespace hg::test::samples {

namespace {

// The shape of the bytes for a weight [n, k].
Sizes levels_of(Packing packing, int64_t n, int64_t k) {
  const bool halves_k = packing == Packing::halves || packing == Packing::pairs;
  return {packing == Packing::rows ? (n + 1) / 2 : n, halves_k ? (k + 1) / 2 : k};
}

}  // namespace

std::vector<Sample> low_bits() {
  std::vector<Sample> all;
  // Of m rows, k inputs and n outputs; `given`: bits for offsets, bias and residual.
  const auto add = [&](Packing packing, int64_t m, int64_t k, int64_t n, int64_t group, int given,
                       std::string activation = "none") {
    const int64_t groups = (k + group - 1) / group, most = packing == Packing::bytes ? 128 : 8;
    const double bound = 1.0 / static_cast<double>(most) / std::max<double>(1, 0.1 * double(k));
    Sample s = {.op = "quantized_linear",
                .inputs = {{.shape = {m, k}},
                           {.dtype = i8,
                            .shape = levels_of(packing, n, k),
                            .low = -128,
                            .high = 127,
                            .constant = n % 2 == 0},
                           {.shape = {n, groups}, .low = -bound, .high = bound},
                           {.shape = {n, groups},
                            .low = -bound * double(most),
                            .high = bound * double(most),
                            .given = (given & 1) != 0},
                           {.shape = {n}, .given = (given & 2) != 0},
                           {.shape = {m, n}, .given = (given & 4) != 0}},
                .attrs = {{"packing", std::string(to_string(packing))},
                          {"group", group},
                          {"activation", std::move(activation)}},
                .gradient = m * k * n <= 200,
                .floats = {f32}};
    while (!s.inputs.back().given) s.inputs.pop_back();
    for (SampleInput& input : s.inputs)
      if (!input.given) input.shape = {};
    all.push_back(std::move(s));
  };
  for (const Packing packing : {Packing::bytes, Packing::rows, Packing::halves, Packing::pairs}) {
    add(packing, 1, 1, 1, 1, 0);
    add(packing, 1, 2, 3, 2, 1);
    add(packing, 3, 7, 5, 3, 7, "relu");
    add(packing, 1, 64, 8, 32, 0);
    add(packing, 2, 67, 6, 67, 2);
    add(packing, 3, 131, 9, 32, 1);
    add(packing, 1, 301, 67, 20, 3, "silu");
    add(packing, 4, 128, 34, 128, 7);
    add(packing, 7, 96, 13, 64, 1);
    add(packing, 9, 33, 17, 8, 0);
    add(packing, 30, 301, 67, 64, 7, "gelu");
    add(packing, 13, 520, 131, 5, 1);
    add(packing, 250, 35, 140, 16, 2);
    add(packing, 0, 5, 4, 2, 2);
    add(packing, 3, 0, 4, 1, 3);
    add(packing, 3, 5, 0, 2, 0);
    add(packing, 11, 0, 4, 1, 2);
    // x: [images, k, pixels...]
    const auto conv = [&](Sizes x, int64_t n, int64_t group, int given, std::string activation) {
      const int64_t k = x[1];
      add(packing, x[0], k, n, group, given, std::move(activation));
      Sample& s = all.back();
      s.op = "quantized_conv";
      s.gradient = x.count() * n <= 200;
      s.inputs[0].shape = x;
      if ((given & 4) != 0) {
        s.inputs.back().shape = x;
        s.inputs.back().shape[1] = n;
      }
    };
    conv({1, 1, 1}, 1, 1, 0, "none");
    conv({2, 3, 5}, 4, 2, 1, "none");
    conv({1, 33, 7, 9}, 50, 8, 7, "relu");
    conv({3, 300, 5, 3, 2}, 131, 64, 6, "silu");
    conv({1, 70, 300}, 97, 70, 3, "none");
    conv({2, 40, 17, 31}, 5, 16, 4, "none");
    conv({0, 5, 3}, 4, 2, 2, "none");
    conv({3, 0, 2, 2}, 4, 1, 3, "relu");
    conv({3, 5, 0, 2}, 3, 2, 0, "none");
    conv({3, 5, 2, 2}, 0, 2, 0, "none");
    const auto matmul = [&](int64_t m, int64_t n, int64_t width, int64_t group, bool offsets) {
      const Sizes scales = {n, (width + group - 1) / group};
      const double most = packing == Packing::bytes ? 128 : 8;
      const double bound = 1.0 / most / std::max<double>(1, 0.1 * static_cast<double>(n));
      all.push_back(
          {.op = "quantized_matmul",
           .inputs =
               {{.shape = {m, n}},
                {.dtype = i8, .shape = levels_of(packing, n, width), .low = -128, .high = 127},
                {.shape = scales, .low = -bound, .high = bound}},
           .attrs = {{"packing", std::string(to_string(packing))},
                     {"group", group},
                     {"width", width}},
           .gradient = m * n * width <= 200,
           .floats = {f32}});
      if (offsets)
        all.back().inputs.push_back({.shape = scales, .low = -bound * most, .high = bound * most});
    };
    matmul(1, 1, 1, 1, false);
    matmul(2, 3, 7, 3, true);
    matmul(9, 301, 35, 8, false);
    matmul(250, 33, 140, 32, true);
    matmul(3, 600, 131, 131, false);
    matmul(0, 5, 4, 2, false);
    matmul(3, 0, 4, 2, true);
    matmul(3, 4, 0, 1, false);
    const auto rows = [&](Sizes indices, int64_t n, int64_t width, int64_t group, bool offsets) {
      all.push_back(
          {.op = "quantized_embedding",
           .inputs =
               {{.dtype = i8, .shape = levels_of(packing, n, width), .low = -128, .high = 127},
                {.shape = {n, (width + group - 1) / group}},
                {.dtype = i64, .shape = indices, .low = 0, .high = static_cast<double>(n - 1)}},
           .attrs = {{"packing", std::string(to_string(packing))},
                     {"group", group},
                     {"width", width}},
           .gradient = false,
           .floats = offsets ? std::vector<DType>{f32} : std::vector<DType>{f32, f16}});
      if (offsets) all.back().inputs.push_back({.shape = {n, (width + group - 1) / group}});
    };
    const auto scan = [&](std::string cell, int64_t time, int64_t batch, int64_t hidden,
                          int64_t group, bool offsets, bool bias, bool reverse) {
      const int64_t width = hidden * gate_count(*parse_cell(cell));
      const Sizes scales = {width, (hidden + group - 1) / group};
      const double most = packing == Packing::bytes ? 128 : 8;
      const double bound = 1.0 / most / std::max<double>(1, 0.1 * static_cast<double>(hidden));
      const bool is_lstm = cell == "lstm";
      const auto one = [](Sizes shape, double limit, bool given) {
        return SampleInput{
            .shape = given ? shape : Sizes{}, .low = -limit, .high = limit, .given = given};
      };
      Sample s = {.op = "quantized_scan",
                  .inputs = {{.shape = {time, batch, width}},
                             {.dtype = i8,
                              .shape = levels_of(packing, width, hidden),
                              .low = -128,
                              .high = 127,
                              .constant = hidden % 2 == 0},
                             one(scales, bound, true),
                             one(scales, bound * most, offsets),
                             one({batch, hidden}, 1, true),
                             one({width}, 1, bias),
                             one({batch, hidden}, 1, is_lstm)},
                  .attrs = {{"cell", std::move(cell)},
                            {"packing", std::string(to_string(packing))},
                            {"group", group},
                            {"reverse", reverse}},
                  .gradient = false,
                  .floats = {f32}};
      while (!s.inputs.back().given) s.inputs.pop_back();
      all.push_back(std::move(s));
    };
    for (const char* cell : {"lstm", "gru", "tanh", "relu"}) {
      scan(cell, 1, 1, 1, 1, false, false, false);
      scan(cell, 4, 2, 3, 2, true, true, true);
      scan(cell, 3, 9, 37, 8, true, false, false);
      scan(cell, 2, 1, 70, 32, false, true, true);
      scan(cell, 0, 2, 3, 3, false, false, false);
      scan(cell, 2, 0, 3, 1, true, true, false);
      scan(cell, 2, 3, 0, 1, false, true, false);
    }
    // Scales of f16, of more groups than are widened at a time.
    const auto with_half_scales = [&](size_t input) {
      all.back().inputs[input].dtype = f16;
      all.back().gradient = false;
    };
    add(packing, 2, 100, 7, 1, 1);
    with_half_scales(2);
    add(packing, 12, 75, 9, 2, 0);
    with_half_scales(2);
    matmul(3, 20, 67, 2, true);
    with_half_scales(2);
    conv({2, 35, 7}, 9, 1, 2, "none");
    with_half_scales(2);
    rows({7}, 9, 70, 1, true);
    with_half_scales(1);
    scan("gru", 2, 2, 37, 1, false, true, false);
    with_half_scales(2);
    rows({}, 1, 1, 1, false);
    rows({5}, 3, 7, 7, true);
    rows({3, 2}, 9, 33, 8, false);
    rows({40}, 31, 301, 32, true);
    rows({130}, 20, 128, 5, false);
    rows({0}, 4, 6, 2, true);
    rows({3}, 4, 0, 1, false);
  }
  return all;
}

}  // namespace hg::test::samples
