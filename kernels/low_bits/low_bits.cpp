// SPDX-License-Identifier: Apache-2.0
// quantized_linear: multiplies a few rows of x by levels in registers. For more rows, a tile of the
// weight is widened to f32 panels, which stay in the cache. With Precision::i8, x is rounded first,
// and a few rows are multiplied as integers. quantized_embedding widens rows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/element.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "kernels/low_bits/levels.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kFewRows = 8;
constexpr int64_t kTaskBytes = 1 << 16;  // of levels that one task reads, approximately
constexpr int64_t kTileM = 240, kTileN = 128;
constexpr int64_t kMostColumns = int64_t{1} << 30;  // of segments, which are counted in 32 bits

// Inputs of the op.
enum : int { kX, kLevels, kScales, kOffsets, kBias, kResidual };

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
  std::vector<Segment> segments;
  std::vector<int32_t> columns;                     // column of x for each position
  Copy copies[3];                                   // of levels, scales and offsets
  bool rounds = false;                              // rounds x to 8 bits
  int64_t x_at = 0, rounded_at = 0, scales_at = 0;  // in the workspace
  int64_t sums_at = -1;                             // likewise; -1: there are no offsets
  int64_t width = 1;                                // byte rows of a task
  int64_t tile_m = 1, lanes = 1, slot_bytes = 0;

  int64_t tiles_m() const { return ceil_div(m, tile_m); }
  int64_t tiles_n() const { return ceil_div(levels.n, kTileN); }
  int64_t places() const { return static_cast<int64_t>(columns.size()); }
};

bool is_contiguous_along_k(const Tensor& t) { return t.strides[1] == 1 || t.shape[1] <= 1; }

void copy_matrix(const Tensor& from, void* to) {
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
  const bool is_ready = is_contiguous_along_k(t) &&
                        (input == kLevels ? t.strides[0] >= 0 : t.strides[0] == t.shape[1]);
  if (t.count() == 0 || is_ready) return copy;
  copy.bytes = t.count() * size_of(t.dtype);
  copy.packed = c.pack(
      input,
      str_cat("low_bits.rows/", t.shape[0], ",", t.shape[1], ",", t.strides[0], ",", t.strides[1]),
      copy.bytes, [t](void* to) { copy_matrix(t, to); });
  if (copy.packed != nullptr) return copy;
  copy.at = at;
  at += slot_step(copy.bytes);
  return copy;
}

QuantizedLinear described(PrepareContext& c, int64_t& at) {
  QuantizedLinear g;
  const Tensor &x = c.in(kX), &levels = c.in(kLevels), &scales = c.in(kScales);
  g.levels.packing = *packing_named(c.attrs().string("packing"));
  g.levels.n = scales.shape[0];
  g.levels.k = x.shape[x.rank() - 1];
  g.levels.group = c.attrs().integer("group");
  g.levels.groups = scales.shape[1];
  g.levels.byte_rows = levels.shape[0];
  g.m = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) g.m *= x.shape[i];
  g.activation = *activation_named(c.attrs().string("activation"));
  g.loops = &low_bits_table();
  g.table = &gemm_table();
  for (int i = 0; i < 3; ++i)
    if (c.has(kLevels + i)) g.copies[i] = copy_of(c, kLevels + i, at);
  g.levels.row_bytes = g.copies[0].bytes > 0 ? levels.shape[1] : levels.strides[0];
  g.rounds = c.precision() == Precision::i8;
  return g;
}

int64_t rows_of(const PrepareContext& c) {
  int64_t m = 1;
  for (int i = 0; i + 1 < c.in(kX).rank(); ++i) m *= c.in(kX).shape[i];
  return m;
}

bool has_sizes(const PrepareContext& c) {
  return c.in(kX).shape[c.in(kX).rank() - 1] <= kMostColumns;
}
bool is_few(const PrepareContext& c) { return rows_of(c) <= kFewRows && has_sizes(c); }

// The operands of a run in the form that the loops read.
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
  w.scales = static_cast<const float*>(data(1));
  if (c.has(kOffsets)) w.offsets = static_cast<const float*>(data(2));
  w.row_bytes = g.levels.row_bytes;
  w.groups = g.levels.groups;
  w.n = g.levels.n;
  w.half = g.levels.half_rows();
  w.segments = g.segments.data();
  w.segment_count = static_cast<int64_t>(g.segments.size());
  return w;
}

// -- 8-bit x --------------------------------------------------------------------------------------

// Rounds a block of x to multiples of scale by integers from -127 to 127. Returns the scale.
float round_block(const float* x, int64_t count, int16_t* to) {
  constexpr float kLeast = 0x1p-100f;    // smaller numbers count as 0
  constexpr float kNearest = 0x1.8p23f;  // adding and subtracting it rounds to even
  float largest = 0, broken = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(x[i]));
    broken += x[i] * 0.0f;
  }
  const bool is_number = broken == 0, is_zero = !is_number || largest < kLeast;
  const float times = is_zero ? 0 : 127 / largest;
  for (int64_t i = 0; i < count; ++i)
    to[i] = is_zero ? int16_t{0}
                    : static_cast<int16_t>(static_cast<int>((x[i] * times + kNearest) - kNearest));
  if (!is_number) return std::numeric_limits<float>::quiet_NaN();
  return is_zero ? 0 : largest / 127;
}

// A row of x: integers, and a scale per block of kRoundedBytes.
struct RoundedRow {
  int16_t* integers;
  float* scales;

  float number(int64_t i) const {
    return scales[i / kRoundedBytes] * static_cast<float>(integers[i]);
  }
};
int64_t padded_integers(int64_t k) { return (k + 1) / 2 * 2; }  // so that floats can follow
int64_t rounded_bytes(int64_t k) {
  return slot_step(padded_integers(k) * 2 + ceil_div(k, kRoundedBytes) * 4);
}

// Rounds row i of x into the row's part of the workspace.
RoundedRow rounded_row(const RunContext& c, const QuantizedLinear& g, int64_t i) {
  const int64_t k = g.levels.k;
  const float* const x = c.in(kX).as<float>() + i * k;
  auto* const integers =
      reinterpret_cast<int16_t*>(c.workspace<char>() + g.rounded_at + i * rounded_bytes(k));
  const RoundedRow row = {integers, reinterpret_cast<float*>(integers + padded_integers(k))};
  for (int64_t begin = 0; begin < k; begin += kRoundedBytes)
    row.scales[begin / kRoundedBytes] =
        round_block(x + begin, std::min<int64_t>(kRoundedBytes, k - begin), row.integers + begin);
  return row;
}

// The row in the form that the loops of rounded products read.
void lay_out_rounded(const QuantizedLinear& g, const RoundedRow& row, int16_t* to,
                     RoundedSegment* scales) {
  for (const int32_t column : g.columns) *to++ = column < 0 ? int16_t{0} : row.integers[column];
  const auto scale_at = [&](int64_t column) {
    return row.scales[std::min(column, g.levels.k - 1) / kRoundedBytes];
  };
  for (const Segment& s : g.segments) {
    const float low = scale_at(g.levels.low_column(s.begin));
    *scales++ = {low, g.levels.has_two() ? scale_at(g.levels.high_column(s.begin)) : low};
  }
}

// -- Levels in registers --------------------------------------------------------------------------

Status prepare_rows(PrepareContext& c) {
  int64_t at = 0;
  QuantizedLinear g = described(c, at);
  g.segments = g.levels.segments(g.rounds ? kRoundedBytes : 0);
  g.columns = g.levels.columns_of(g.segments, g.rounds);
  const int64_t row = g.places();
  g.x_at = at;
  at += slot_step(g.m * row * (g.rounds ? 2 : 4));
  if (c.has(kOffsets)) {
    g.sums_at = at;
    at += slot_step(g.m * g.levels.groups * 4);
  }
  if (g.rounds) {
    g.rounded_at = at;
    at += g.m * rounded_bytes(g.levels.k);
    g.scales_at = at;
    at += slot_step(g.m * static_cast<int64_t>(g.segments.size() * sizeof(RoundedSegment)));
  }
  g.width =
      std::max<int64_t>(4, ceil_div(kTaskBytes, 4 * std::max<int64_t>(1, g.levels.low())) * 4);
  c.set_workspace(at);
  c.make_state(std::move(g));
  return {};
}

// One row of x in the form that the loops read.
void lay_out(const QuantizedLinear& g, const float* x, float* to) {
  for (const int32_t column : g.columns) *to++ = column < 0 ? 0 : x[column];
}

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

// Calls loop(first, last) for parts of the byte rows, and finishes their results.
template <class Loop>
void for_byte_rows(const RunContext& c, const QuantizedLinear& g, const LevelRows& w,
                   const Loop& loop) {
  const Levels& levels = g.levels;
  float* const y = c.out(0).as<float>();
  const float* const bias = c.has(kBias) ? c.in(kBias).as<float>() : nullptr;
  const float* const residual = c.has(kResidual) ? c.in(kResidual).as<float>() : nullptr;
  const auto finish = [&](int64_t first, int64_t last) {
    if (w.offsets != nullptr)
      g.loops->add_offsets({.offsets = w.offsets,
                            .sums = reinterpret_cast<const float*>(c.workspace<char>() + g.sums_at),
                            .rows = g.m,
                            .first = first,
                            .last = last,
                            .groups = levels.groups,
                            .y = y,
                            .y_row = levels.n});
    const Epilogue e = {.activation = g.activation,
                        .column_bias = bias ? bias + first : nullptr,
                        .residual = residual ? residual + first : nullptr};
    if (!e.empty() && first < last) g.table->finish(g.m, last - first, e, y + first, levels.n);
  };
  c.parallel_for(levels.byte_rows, g.width, [&](int64_t begin, int64_t end) {
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

void run_rounded(const RunContext& c, const QuantizedLinear& g) {
  const Levels& levels = g.levels;
  char* const memory = c.workspace<char>();
  auto* const laid_out = reinterpret_cast<int16_t*>(memory + g.x_at);
  auto* const scales = reinterpret_cast<RoundedSegment*>(memory + g.scales_at);
  const auto segments = static_cast<int64_t>(g.segments.size());
  for_rows_of_x(c, g, [&](int64_t i) {
    const RoundedRow row = rounded_row(c, g, i);
    lay_out_rounded(g, row, laid_out + i * g.places(), scales + i * segments);
    sum_groups(c, g, i, [&](int64_t k) { return row.number(k); });
  });
  RoundedProduct product;
  product.w = level_rows(c, g);
  product.byte_rows = levels.byte_rows;
  product.width = levels.low();
  product.rows = g.m;
  product.x = laid_out;
  product.x_row = g.places();
  product.scales = scales;
  product.y = c.out(0).as<float>();
  product.y_row = levels.n;
  const auto loop =
      levels.packing == Packing::bytes ? g.loops->rounded_bytes : g.loops->rounded_nibbles;
  for_byte_rows(c, g, product.w, [&](int64_t first, int64_t last) {
    RoundedProduct part = product;
    part.first = first;
    part.last = last;
    loop(part);
  });
}

void run_rows(const RunContext& c) noexcept {
  const auto& g = c.state<QuantizedLinear>();
  if (c.out(0).count() == 0) return;
  if (g.rounds) return run_rounded(c, g);
  const Levels& levels = g.levels;
  const float* const x = c.in(kX).as<float>();
  const int64_t row = g.places();
  auto* const laid_out = reinterpret_cast<float*>(c.workspace<char>() + g.x_at);
  for_rows_of_x(c, g, [&](int64_t i) {
    const float* const from = x + i * levels.k;
    lay_out(g, from, laid_out + i * row);
    sum_groups(c, g, i, [&](int64_t k) { return from[k]; });
  });
  LowBitsProduct product;
  product.w = level_rows(c, g);
  product.rows = g.m;
  product.x = laid_out;
  product.x_row = row;
  product.y = c.out(0).as<float>();
  product.y_row = levels.n;
  const auto loop = levels.packing == Packing::bytes ? g.loops->bytes : g.loops->nibbles;
  for_byte_rows(c, g, product.w, [&](int64_t first, int64_t last) {
    LowBitsProduct part = product;
    part.first = first;
    part.last = last;
    loop(part);
  });
}

// -- Widened tiles --------------------------------------------------------------------------------

// Parts of a slot.
struct Slot {
  float *panels, *rows;
  explicit Slot(float* at) : panels(at), rows(panels + kTileN * kDepthPiece) {}
  static constexpr int64_t kFloats = 2 * kTileN * kDepthPiece;
};

Status prepare_tiles(PrepareContext& c) {
  int64_t at = 0;
  QuantizedLinear g = described(c, at);
  g.tile_m = std::clamp<int64_t>(g.m, 1, kTileM);
  g.lanes = tile_lanes(c, g.tiles_m() * g.tiles_n());
  g.slot_bytes = Slot::kFloats * 4;
  // for_tiles uses the start of the workspace.
  const int64_t tiles = slot_step(tile_workspace(g.lanes, g.slot_bytes));
  for (Copy& copy : g.copies)
    if (copy.at >= 0) copy.at += tiles;
  if (g.rounds) {
    g.x_at = tiles + at;
    at += slot_step(g.m * g.levels.k * 4);
    g.rounded_at = tiles + at;
    at += g.m * rounded_bytes(g.levels.k);
  }
  c.set_workspace(tiles + at);
  c.make_state(std::move(g));
  return {};
}

// The numbers that rounded x represents.
const float* rounded_x(const RunContext& c, const QuantizedLinear& g) {
  const int64_t k = g.levels.k;
  auto* const numbers = reinterpret_cast<float*>(c.workspace<char>() + g.x_at);
  for_rows_of_x(c, g, [&](int64_t i) {
    const RoundedRow row = rounded_row(c, g, i);
    for (int64_t j = 0; j < k; ++j) numbers[i * k + j] = row.number(j);
  });
  return numbers;
}

void run_tiles(const RunContext& c) noexcept {
  const auto& g = c.state<QuantizedLinear>();
  const Levels& levels = g.levels;
  if (c.out(0).count() == 0) return;
  const float* const x = g.rounds ? rounded_x(c, g) : c.in(kX).as<float>();
  const float* const bias = c.has(kBias) ? c.in(kBias).as<float>() : nullptr;
  const float* const residual = c.has(kResidual) ? c.in(kResidual).as<float>() : nullptr;
  float* const y = c.out(0).as<float>();
  const LevelRows w = level_rows(c, g);
  const int64_t nr = g.table->nr, tiles_m = g.tiles_m(), k = levels.k;
  for_tiles(c, tiles_m * g.tiles_n(), g.lanes, g.slot_bytes, [&](int64_t index, float* memory) {
    const Slot slot(memory);
    const int64_t i0 = index % tiles_m * g.tile_m, j0 = index / tiles_m * kTileN;
    const int64_t rows = std::min(g.tile_m, g.m - i0), columns = std::min(kTileN, levels.n - j0);
    const int64_t offset = i0 * levels.n + j0;
    const Epilogue e = {.activation = g.activation,
                        .column_bias = bias ? bias + j0 : nullptr,
                        .residual = residual ? residual + offset : nullptr};
    for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += kDepthPiece) {
      const int64_t piece = std::min(kDepthPiece, k - k0);
      for (int64_t j = 0; j < columns; ++j)
        levels.widen(*g.loops, w, j0 + j, k0, k0 + piece, slot.rows + j * piece);
      g.table->pack(piece, columns, slot.rows, 1, piece, slot.panels, piece * nr);
      g.table->sweep({.rows = rows,
                      .columns = columns,
                      .k = piece,
                      .left = rows,
                      .a = x + i0 * k + k0,
                      .a_row = k,
                      .a_col = 1,
                      .panels = slot.panels,
                      .panel_step = piece * nr,
                      .y = y + offset,
                      .y_row = levels.n,
                      .add = k0 > 0,
                      .epilogue = k0 + kDepthPiece >= k && !e.empty() ? &e : nullptr});
    }
  });
}

// -- Widened rows ---------------------------------------------------------------------------------

enum : int { kTableLevels, kTableScales, kIndices, kTableOffsets };

Status prepare_embedding(PrepareContext& c) {
  const Tensor &levels = c.in(kTableLevels), &scales = c.in(kTableScales);
  c.make_state(Levels{.packing = *packing_named(c.attrs().string("packing")),
                      .n = scales.shape[0],
                      .k = c.attrs().integer("width"),
                      .group = c.attrs().integer("group"),
                      .groups = scales.shape[1],
                      .byte_rows = levels.shape[0],
                      .row_bytes = levels.shape[1]});
  return {};
}

void run_embedding(const RunContext& c) noexcept {
  const auto& levels = c.state<Levels>();
  LevelRows w;
  w.levels = c.in(kTableLevels).as<const int8_t>();
  w.scales = c.in(kTableScales).as<const float>();
  if (c.has(kTableOffsets)) w.offsets = c.in(kTableOffsets).as<const float>();
  w.row_bytes = levels.row_bytes;
  const int64_t* const indices = c.in(kIndices).as<const int64_t>();
  const int64_t count = c.in(kIndices).count();
  for (int64_t i = 0; i < count; ++i)
    if (indices[i] < 0 || indices[i] >= levels.n) return c.fail("an index is out of range");
  const LowBitsTable& table = low_bits_table();
  float* const y = c.out(0).as<float>();
  c.parallel_for(count, grain_of(levels.k), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      levels.widen(table, w, indices[i], 0, levels.k, y + i * levels.k);
  });
}

constexpr uint32_t kStrided = 1u << kLevels | 1u << kScales | 1u << kOffsets;
constexpr KernelDef kKernels[] = {
    {.op = "quantized_linear",
     .name = "gemv",
     .accepts = is_few,
     .prepare = prepare_rows,
     .run = run_rows,
     .strided = kStrided},
    {.op = "quantized_linear",
     .name = "gemm",
     .prepare = prepare_tiles,
     .run = run_tiles,
     .strided = kStrided},
    {.op = "quantized_embedding",
     .name = "rows",
     .prepare = prepare_embedding,
     .run = run_embedding},
};

}  // namespace

std::span<const KernelDef> low_bits() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
