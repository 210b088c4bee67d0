// SPDX-License-Identifier: Apache-2.0
#include "kernels/low_bits/quantized_linear.h"

#include <cstring>
#include <utility>

#include "kernels/element.h"
#include "kernels/saves_code.h"

namespace hg::kernels {
namespace {

constexpr int64_t kTaskBytes = 1 << 16;             // of levels that one task reads, approximately
constexpr int64_t kLeastTiledRows = 9;              // fewer have the bits of one row
constexpr int64_t kMostColumns = int64_t{1} << 30;  // of segments, which are counted in 32 bits

bool is_contiguous_along_k(const Tensor& t) { return t.strides[1] == 1 || t.shape[1] <= 1; }

// With HG_SMALL, scales of f16 are copied as f32, so that the loops need no code for f16.
bool is_widened(const Tensor& t) { return kSavesCode && t.dtype == f16; }
int64_t copied_size(const Tensor& t) { return is_widened(t) ? 4 : size_of(t.dtype); }

void copy_matrix(const Tensor& from, void* to) {
  if (is_widened(from)) {
    for (int64_t i = 0; i < from.shape[0]; ++i)
      for (int64_t j = 0; j < from.shape[1]; ++j)
        static_cast<float*>(to)[i * from.shape[1] + j] =
            static_cast<float>(from.as<const Half>()[i * from.strides[0] + j * from.strides[1]]);
    return;
  }
  const int64_t size = size_of(from.dtype);
  const char* const bytes = from.as<const char>();
  char* at = static_cast<char*>(to);
  for (int64_t i = 0; i < from.shape[0]; ++i)
    for (int64_t j = 0; j < from.shape[1]; ++j, at += size)
      std::memcpy(at, bytes + (i * from.strides[0] + j * from.strides[1]) * size,
                  static_cast<size_t>(size));
}

// Reserves workspace from `at` on for a copy that must be made in each run.
Copy copy_of(const PrepareContext& c, int input, int64_t& at) {
  const Tensor& t = c.in(input);
  Copy copy;
  // The loops read consecutive rows of scales. Rows of levels may have gaps.
  const bool is_ready = is_contiguous_along_k(t) && !is_widened(t) &&
                        (input == kLevels ? t.strides[0] >= 0 : t.strides[0] == t.shape[1]);
  if (t.count() == 0 || is_ready) return copy;
  copy.bytes = t.count() * copied_size(t);
  copy.packed = c.pack(
      input,
      str_cat("low_bits.rows/", t.shape[0], ",", t.shape[1], ",", t.strides[0], ",", t.strides[1]),
      copy.bytes, [t](void* to) { copy_matrix(t, to); });
  if (copy.packed != nullptr) return copy;
  copy.at = at;
  at += slot_step(copy.bytes);
  return copy;
}

// For m rows of k elements.
QuantizedLinear operands(PrepareContext& c, int64_t m, int64_t k, int64_t before) {
  QuantizedLinear g;
  g.workspace = before;
  const Tensor &levels = c.in(kLevels), &scales = c.in(kScales);
  g.levels.packing = *parse_packing(c.attrs().string("packing"));
  g.levels.n = scales.shape[0];
  g.levels.k = k;
  g.levels.group = c.attrs().integer("group");
  g.levels.groups = scales.shape[1];
  g.levels.byte_rows = levels.shape[0];
  g.m = m;
  g.loops = &low_bits_table();
  g.table = &gemm_table();
  for (int i = 0; i < 3; ++i)
    if (c.has(kLevels + i)) g.copies[i] = copy_of(c, kLevels + i, g.workspace);
  g.levels.row_bytes = g.copies[0].bytes > 0 ? levels.shape[1] : levels.strides[0];
  return g;
}

}  // namespace

QuantizedLinear quantized_linear(PrepareContext& c, int64_t before) {
  QuantizedLinear g = operands(c, x_rows(c), c.in(kX).shape[c.in(kX).rank() - 1], before);
  g.activation = *parse_activation(c.attrs().string("activation"));
  return g;
}

QuantizedLinear quantized_conv_product(PrepareContext& c, int64_t before) {
  const Tensor& x = c.in(kX);
  const int64_t k = x.shape[1];
  QuantizedLinear g = operands(c, k == 0 ? 0 : x.count() / k, k, before);
  g.activation = *parse_activation(c.attrs().string("activation"));
  return g;
}

QuantizedLinear quantized_matmul(PrepareContext& c, int64_t before) {
  return operands(c, x_rows(c), c.attrs().integer("width"), before);
}

QuantizedLinear quantized_scan_product(PrepareContext& c, int64_t before) {
  const Tensor& state = c.in(kState);
  return operands(c, state.shape[0], state.shape[1], before);
}

int64_t x_rows(const PrepareContext& c) {
  int64_t m = 1;
  for (int i = 0; i + 1 < c.in(kX).rank(); ++i) m *= c.in(kX).shape[i];
  return m;
}

bool has_sizes(const PrepareContext& c) {
  return c.in(kX).shape[c.in(kX).rank() - 1] <= kMostColumns;
}

bool takes_level_tiles(const PrepareContext& c) {
  if (kSavesCode || c.precision() == Precision::i8 || low_bits_table().tiles == nullptr ||
      x_rows(c) < kLeastTiledRows)
    return false;
  // Groups end where tiles do.
  return c.attrs().integer("group") % kTileDepth == 0 || c.in(kScales).shape[1] <= 1;
}

void set_scales(LevelRows& w, DType dtype, const void* scales) {
  if (dtype == f16)
    w.half_scales = static_cast<const Half*>(scales);
  else
    w.scales = static_cast<const float*>(scales);
}

LevelRows level_rows(const RunContext& c, const QuantizedLinear& g) {
  const auto data = [&](int i) -> const void* {
    const Copy& copy = g.copies[i];
    const Tensor& t = c.in(kLevels + i);
    if (copy.packed != nullptr) return copy.packed;
    if (copy.at < 0) return t.data;
    void* const to = c.workspace<char>() + copy.at;
    copy_matrix(t, to);
    return to;
  };
  LevelRows w;
  w.levels = static_cast<const int8_t*>(data(0));
  set_scales(w, is_widened(c.in(kScales)) ? f32 : c.in(kScales).dtype, data(1));
  if (c.has(kOffsets)) w.offsets = static_cast<const float*>(data(2));
  w.row_bytes = g.levels.row_bytes;
  w.groups = g.levels.groups;
  w.n = g.levels.n;
  w.half = g.levels.half_rows();
  return w;
}

Epilogue epilogue_at(const RunContext& c, const QuantizedLinear& g, int64_t row, int64_t column) {
  Epilogue e;
  e.activation = g.activation;
  if (c.has(kBias)) e.column_bias = c.in(kBias).as<float>() + column;
  if (c.has(kResidual)) e.residual = c.in(kResidual).as<float>() + row * g.levels.n + column;
  return e;
}

void add_offsets(const RunContext& c, const QuantizedLinear& g, const LevelRows& w, float* y,
                 int64_t row, int64_t rows, int64_t first, int64_t last) {
  if (w.offsets == nullptr || first >= last) return;
  const auto* const sums = reinterpret_cast<const float*>(c.workspace<char>() + g.sums_at);
  g.loops->add_offsets({.offsets = w.offsets,
                        .sums = sums + row * g.levels.groups,
                        .rows = rows,
                        .first = first,
                        .last = last,
                        .groups = g.levels.groups,
                        .y = y,
                        .y_row = g.levels.n});
}

void finish_block(const RunContext& c, const QuantizedLinear& g, const LevelRows& w, int64_t row,
                  int64_t rows, int64_t first, int64_t last) {
  if (first >= last) return;
  float* const y = c.out(0).as<float>() + row * g.levels.n;
  add_offsets(c, g, w, y, row, rows, first, last);
  const Epilogue e = epilogue_at(c, g, row, first);
  if (!e.empty()) g.table->finish(rows, last - first, e, y + first, g.levels.n);
}

int64_t task_rows(const Levels& levels) {
  return std::max<int64_t>(4, ceil_div(kTaskBytes, 4 * std::max<int64_t>(1, levels.low())) * 4);
}

ExactRows::ExactRows(const PrepareContext& c, QuantizedLinear shared)
    : QuantizedLinear(std::move(shared)) {
  segments = levels.segments();
  columns = levels.columns_of(segments);
  x_at = take(m * places() * 4);
  if (c.has(kOffsets)) sums_at = take(m * levels.groups * 4);
}

LowBitsProduct exact_product(const RunContext& c, const ExactRows& g, const LevelRows& w,
                             const float* x, float* y) {
  const int64_t row = g.places();
  auto* const laid_out = reinterpret_cast<float*>(c.workspace<char>() + g.x_at);
  for_rows_of_x(c, g, [&](int64_t i) {
    const float* const from = x + i * g.levels.k;
    float* to = laid_out + i * row;
    for (const int32_t column : g.columns) *to++ = column < 0 ? 0 : from[column];
    sum_groups(c, g, i, [&](int64_t k) { return from[k]; });
  });
  LowBitsProduct product;
  product.w = w;
  product.w.segments = g.segments.data();
  product.w.segment_count = static_cast<int64_t>(g.segments.size());
  product.rows = g.m;
  product.x = laid_out;
  product.x_row = row;
  product.y = y;
  product.y_row = g.levels.n;
  return product;
}

}  // namespace hg::kernels
