// SPDX-License-Identifier: Apache-2.0
// What the kernels of products with 8- and 4-bit weights share: the operands, and the division of
// the work.
#pragma once

#include <algorithm>
#include <vector>

#include "hg/kernel.h"
#include "kernels/ceil_div.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "kernels/low_bits/levels.h"

namespace hg::kernels {

// Inputs of the ops. Those of quantized_scan begin with the gates, and go on with kState.
enum : int { kX, kLevels, kScales, kOffsets, kBias, kResidual };
enum : int { kState = kBias, kScanBias, kCell };
inline constexpr uint32_t kStridedWeight = 1u << kLevels | 1u << kScales | 1u << kOffsets;

// Contiguous copies of inputs that are not: made once or, if they are not constant, in each run.
struct Copy {
  const void* packed = nullptr;
  int64_t at = -1, bytes = 0;  // in the workspace
};

struct QuantizedLinear {
  Levels levels;
  int64_t m = 0;
  Activation activation = Activation::none;
  const LowBitsTable* loops = nullptr;
  const GemmTable* table = nullptr;
  Copy copies[3];         // of levels, scales and offsets
  int64_t sums_at = -1;   // of x, in the workspace; -1: there are no offsets
  int64_t workspace = 0;  // bytes taken so far

  // Takes part of the workspace, and returns where it begins.
  int64_t take(int64_t bytes) {
    const int64_t at = workspace;
    workspace += slot_step(bytes);
    return at;
  }
  // Takes the start of the workspace, which for_tiles uses, before anything but copies is taken.
  void take_slots(int64_t lanes, int64_t slot_bytes) {
    const int64_t slots = slot_step(tile_workspace(lanes, slot_bytes));
    for (Copy& copy : copies)
      if (copy.at >= 0) copy.at += slots;
    workspace += slots;
  }
};

// The first `before` bytes of the workspace are not taken.
QuantizedLinear quantized_linear(PrepareContext& c, int64_t before = 0);
// The same for quantized_matmul, whose weight has `width` columns.
QuantizedLinear quantized_matmul(PrepareContext& c, int64_t before);
// The same for quantized_conv: a row of x is a pixel.
QuantizedLinear quantized_conv_product(PrepareContext& c, int64_t before);
// The same for quantized_scan, without an activation: x is the state.
QuantizedLinear quantized_scan_product(PrepareContext& c, int64_t before);
// The number of rows of x.
int64_t x_rows(const PrepareContext& c);
// Whether columns can be counted in 32 bits.
bool has_sizes(const PrepareContext& c);
// Whether level_tiles computes quantized_linear.
bool takes_level_tiles(const PrepareContext& c);

// Scales of f32 or f16.
void set_scales(LevelRows& w, DType dtype, const void* scales);
// The operands of a run in the form that the loops read, without segments.
LevelRows level_rows(const RunContext& c, const QuantizedLinear& g);

// What is applied to the results from `column` on, in rows from `row` on.
Epilogue epilogue_at(const RunContext& c, const QuantizedLinear& g, int64_t row, int64_t column);
// Adds the products of the offsets to y, whose first row is `row`.
void add_offsets(const RunContext& c, const QuantizedLinear& g, const LevelRows& w, float* y,
                 int64_t row, int64_t rows, int64_t first, int64_t last);
// Adds the products of the offsets, and applies the epilogue.
void finish_block(const RunContext& c, const QuantizedLinear& g, const LevelRows& w, int64_t row,
                  int64_t rows, int64_t first, int64_t last);

// Number of byte rows that one task reads.
int64_t task_rows(const Levels& levels);

// Of a row of x, what its offsets are multiplied by. number(i): element i.
template <class Number>
void sum_groups(const RunContext& c, const QuantizedLinear& g, int64_t row, const Number& number) {
  if (g.sums_at < 0) return;
  const Levels& levels = g.levels;
  float* const sums =
      reinterpret_cast<float*>(c.workspace<char>() + g.sums_at) + row * levels.groups;
  for (int64_t group = 0, i = 0; group < levels.groups; ++group) {
    float sum = 0;
    for (const int64_t end = std::min(levels.k, i + levels.group); i < end; ++i) sum += number(i);
    sums[group] = sum;
  }
}

// Calls loop(first, last) for parts of the byte rows, and finish(first, last) for their results.
template <class Loop, class Finish>
void for_byte_rows(const RunContext& c, const Levels& levels, const Loop& loop,
                   const Finish& finish) {
  c.parallel_for(levels.byte_rows, task_rows(levels), [&](int64_t begin, int64_t end) {
    loop(begin, end);
    finish(begin, end);
    if (const int64_t half = levels.half_rows(); half > 0)
      finish(begin + half, std::min(end + half, levels.n));
  });
}

// Calls row(i) for each row of x.
template <class Row>
void for_rows_of_x(const RunContext& c, const QuantizedLinear& g, const Row& row) {
  c.parallel_for(g.m, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, g.levels.k)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) row(i);
                 });
}

// -- A few rows of x times levels that are unpacked in registers --------------------------------

struct ExactRows : QuantizedLinear {
  ExactRows(const PrepareContext& c, QuantizedLinear shared);

  std::vector<Segment> segments;
  std::vector<int32_t> columns;  // of x, for each position
  int64_t x_at = 0;              // in the workspace

  int64_t places() const { return static_cast<int64_t>(columns.size()); }
};

// Lays x out for the loops, and returns the product with the weight that writes to y.
LowBitsProduct exact_product(const RunContext& c, const ExactRows& g, const LevelRows& w,
                             const float* x, float* y);

// Multiplies all rows of the weight, and calls finish(first, last) for the results.
template <class Finish>
void multiply_rows(const RunContext& c, const ExactRows& g, const LowBitsProduct& product,
                   const Finish& finish) {
  const auto loop = g.levels.packing == Packing::bytes ? g.loops->bytes : g.loops->nibbles;
  const auto part = [&](int64_t first, int64_t last) {
    LowBitsProduct p = product;
    p.first = first;
    p.last = last;
    loop(p);
  };
  for_byte_rows(c, g.levels, part, finish);
}

}  // namespace hg::kernels
