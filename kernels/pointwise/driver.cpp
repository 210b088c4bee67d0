// SPDX-License-Identifier: Apache-2.0
// The driver of elementwise kernels: broadcasts, gathers, and calls the block on runs of elements.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/ceil_div.h"
#include "kernels/element.h"
#include "kernels/pointwise/gather_rows.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/saves_code.h"
#include "kernels/simd/half_simd.h"
#include "kernels/simd/transpose_simd.h"

namespace hg::kernels {
namespace {

constexpr int64_t kBlockSize = 512;    // elements of a gather buffer, for up to 8 inputs
constexpr int64_t kGrain = 16384;      // elements of one task
constexpr int64_t kLine = 64;          // bytes
constexpr int64_t kTileRows = 16;      // elements per line of memory that an operand reads across
constexpr int64_t kTileBytes = 36864;  // of all buffers of a tile
constexpr int64_t kLongRow = 64;       // elements for which the block is called

// Collapsed shape and strides. Operand k reads x[k]; the output is contiguous.
struct PointwisePlan {
  Block block = nullptr;
  PointwiseParams params;
  std::shared_ptr<const void> program;  // of the params
  int inputs = 0;                       // number of given inputs
  int source[kMaxOperands] = {};        // their indices
  int rank = 0;
  int64_t count = 0;
  Sizes shape;
  Sizes strides[kMaxOperands];
  DType dtypes[kMaxOperands] = {};
  GatherRows gather_rows[kMaxOperands] = {};
  bool linear[kMaxOperands] = {};   // elements are contiguous and in order
  bool number[kMaxOperands] = {};   // one element, which the block reads in place
  bool widened[kMaxOperands] = {};  // 16-bit floats that the block reads as f32
  DType out_dtype = f32;
  bool narrowed = false;  // the block writes f32, and the output stores 16-bit floats
  bool all_direct = false;
  // Elements per chunk; `repeats`: equal in every chunk.
  int64_t chunk = kBlockSize;
  bool repeats[kMaxOperands] = {};
  bool in_place = false;  // the block reads and writes whole rows without buffers
  // A dim along which an operand is contiguous, although it is not along the last dim. The result
  // is then computed in tiles of both dims.
  int across = -1;
  int64_t tile_rows = 0, tile_columns = 0;
};

// Bytes of an element in the form that the block reads.
int64_t read_size(const PointwisePlan& plan, int k) {
  return plan.widened[k] ? size_of(f32) : size_of(plan.dtypes[k]);
}

// Bytes of an element that the block writes.
int64_t written_size(const PointwisePlan& plan) {
  return plan.narrowed ? size_of(f32) : size_of(plan.out_dtype);
}
// Bytes of an element of operand k in the buffer of a tile.
int64_t tile_size(const PointwisePlan& plan, int k) {
  return read_size(plan, k) + (plan.widened[k] ? size_of(plan.dtypes[k]) : 0);
}

// The index of element `at`, in order.
void find_index(int64_t at, const Sizes& shape, int64_t* index) {
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[d] = at % shape[d];
    at /= shape[d];
  }
}
int64_t offset_of(const int64_t* index, const Sizes& strides) {
  int64_t offset = 0;
  for (int d = 0; d < strides.rank(); ++d) offset += index[d] * strides[d];
  return offset;
}

// Gathers the elements of one operand in order, from any element on.
class Gatherer {
 public:
  void start(const PointwisePlan& plan, int k, const std::byte* from, int64_t at) {
    from_ = from;
    find_index(at, plan.shape, index_);
    column_ = plan.rank > 0 ? index_[plan.rank - 1] : 0;
    row_ = offset_of(index_, plan.strides[k]);
    if (plan.rank > 0) row_ -= column_ * plan.strides[k].back();
  }
  bool is_started() const { return from_ != nullptr; }

  // The next n elements.
  void gather(const PointwisePlan& plan, int k, int64_t n, std::byte* to) {
    const GatherRows gather_rows = plan.gather_rows[k];
    if (plan.rank == 0) return gather_rows({from_, 0, 0, 1, n}, to);
    const Sizes& shape = plan.shape;
    const Sizes& strides = plan.strides[k];
    const int64_t size = size_of(plan.dtypes[k]), read = read_size(plan, k);
    const int last = plan.rank - 1;
    const int64_t inner = shape[last], stride = strides[last];
    const int64_t step = last > 0 ? strides[last - 1] : 0;
    while (n > 0) {
      // Whole rows up to the end of the dim before the last one, or a part of a row.
      const bool is_whole = column_ == 0 && last > 0 && n >= inner;
      const int64_t run = std::min(n, inner - column_);
      const int64_t rows = is_whole ? std::min(n / run, shape[last - 1] - index_[last - 1]) : 1;
      gather_rows({from_ + (row_ + column_ * stride) * size, step, stride, rows, run}, to);
      to += rows * run * read;
      n -= rows * run;
      column_ += run;
      if (column_ < inner || last == 0) continue;
      column_ = 0;
      row_ += rows * step;
      index_[last - 1] += rows;
      for (int d = last - 1; d > 0 && index_[d] == shape[d]; --d) {
        row_ += strides[d - 1] - shape[d] * strides[d];
        index_[d] = 0;
        ++index_[d - 1];
      }
    }
  }

 private:
  const std::byte* from_ = nullptr;
  int64_t row_ = 0, column_ = 0;  // the offset of the row; the position in it
  int64_t index_[kMaxRank];       // of the row
};

void gather(const PointwisePlan& plan, int k, const std::byte* from, int64_t at, int64_t n,
            std::byte* to) {
  Gatherer gatherer;
  gatherer.start(plan, k, from, at);
  gatherer.gather(plan, k, n, to);
}

// Number of elements after which operand k repeats: 1 for a single value, the number of elements if
// it never repeats.
int64_t period_of(const PointwisePlan& plan, int k) {
  int64_t period = 1;
  int d = plan.rank - 1;
  for (; d >= 0 && plan.strides[k][d] == period; --d) period *= plan.shape[d];
  for (; d >= 0; --d)
    if (plan.strides[k][d] != 0) return plan.count;
  return period;
}

// Stores elements that a block has computed.
void write(const PointwisePlan& plan, const void* computed, int64_t n, std::byte* y) {
  if (!plan.narrowed)
    std::memcpy(y, computed, static_cast<size_t>(n * size_of(plan.out_dtype)));
  else if (plan.out_dtype == f16)
    half_table().narrow(n, static_cast<const float*>(computed), reinterpret_cast<Half*>(y));
  else
    half_table().narrow(n, static_cast<const float*>(computed), reinterpret_cast<BFloat16*>(y));
}

// Calls f(params) with blocks that report divisions by zero.
template <class F>
void checked(const PointwisePlan& plan, const RunContext& c, const F& f) {
  bool divided_by_zero = false;
  PointwiseParams params = plan.params;
  params.divided_by_zero = &divided_by_zero;
  f(params);
  if (divided_by_zero) c.fail("an integer is divided by zero");
}

int64_t inner_of(const PointwisePlan& plan) {
  return plan.rank > 0 ? plan.shape[plan.rank - 1] : 1;
}
// Long rows: chunks end at the end of a row, so that contiguous rows are read in place.
bool is_by_row(const PointwisePlan& plan) { return inner_of(plan) >= 128; }

// The buffers of all inputs and of the result are on the stack.
constexpr int64_t kBufferBytes = 9 * kBlockSize * 8;
int64_t buffer_elements(const PointwisePlan& plan) {
  static_assert((kMaxOperands + 1) * kBlockSize / 2 * 8 <= kBufferBytes);
  return plan.inputs > 8 ? kBlockSize / 2 : kBlockSize;
}

// Rows that the block reads and writes in place, from element `begin` on.
void run_rows(const PointwisePlan& plan, const PointwiseParams& params,
              const std::byte* const* base, int64_t begin, int64_t end, std::byte* y) {
  const int last = plan.rank - 1;
  const int64_t inner = plan.shape[last], y_size = size_of(plan.out_dtype);
  int64_t index[kMaxRank], steps[kMaxOperands][kMaxRank];  // steps in bytes
  find_index(begin, plan.shape, index);
  const void* x[kMaxOperands];
  const std::byte* row[kMaxOperands];
  for (int k = 0; k < plan.inputs; ++k) {
    row[k] = base[k];
    for (int d = 0; d <= last; ++d) steps[k][d] = plan.strides[k][d] * size_of(plan.dtypes[k]);
    for (int d = 0; d < last; ++d) row[k] += index[d] * steps[k][d];
  }
  for (int64_t at = begin, n = 0; at < end; at += n) {
    n = std::min(inner - index[last], end - at);
    for (int k = 0; k < plan.inputs; ++k) x[k] = row[k] + index[last] * steps[k][last];
    plan.block(y, x, n, params);
    y += n * y_size;
    index[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      for (int k = 0; k < plan.inputs; ++k) row[k] += steps[k][d];
      if (++index[d] < plan.shape[d]) break;
      for (int k = 0; k < plan.inputs; ++k) row[k] -= plan.shape[d] * steps[k][d];
      index[d] = 0;
    }
  }
}

void run_blocks(const PointwisePlan& plan, const PointwiseParams& params, const RunContext& c,
                int64_t begin, int64_t end, std::byte* y) {
  const void* x[kMaxOperands];
  const std::byte* base[kMaxOperands];
  for (int k = 0; k < plan.inputs; ++k) {
    base[k] = static_cast<const std::byte*>(c.in(plan.source[k]).data);
    x[k] = plan.number[k] ? base[k] : base[k] + begin * size_of(plan.dtypes[k]);
  }
  if (plan.all_direct) return plan.block(y, x, end - begin, params);
  if (!kSavesCode && plan.in_place) return run_rows(plan, params, base, begin, end, y);
  if (params.copies && !plan.narrowed) return gather(plan, 0, base[0], begin, end - begin, y);
  if (params.copies && plan.linear[0] && !plan.widened[0]) return write(plan, x[0], end - begin, y);
  alignas(64) std::byte memory[kBufferBytes];
  std::byte* buffers[kMaxOperands + 1];  // the last is for the result
  for (int k = 0; k <= plan.inputs; ++k)
    buffers[k < plan.inputs ? k : kMaxOperands] = memory + k * buffer_elements(plan) * 8;
  bool filled[kMaxOperands] = {};
  const std::byte* held[kMaxOperands] = {};
  int64_t held_count[kMaxOperands] = {};
  Gatherer gatherers[kMaxOperands];
  const int64_t y_size = size_of(plan.out_dtype);
  const int64_t inner = inner_of(plan);
  const bool by_row = is_by_row(plan);
  int64_t index[kMaxRank] = {};  // of element `at`, if chunks end at the end of a row
  if (by_row) find_index(begin, plan.shape, index);
  for (int64_t at = begin; at < end;) {
    int64_t n = std::min(plan.chunk, end - at);
    if (by_row) n = std::min(n, inner - index[plan.rank - 1]);
    for (int k = 0; k < plan.inputs; ++k) {
      if (plan.number[k]) continue;
      if (plan.linear[k] && !plan.widened[k]) {
        x[k] = base[k] + at * size_of(plan.dtypes[k]);
      } else if (plan.repeats[k]) {
        if (!filled[k]) {
          // A first chunk that its row cut short may be followed by longer ones.
          gather(plan, k, base[k], at, std::min(plan.chunk, end - at), buffers[k]);
          filled[k] = true;
        }
        x[k] = buffers[k];
      } else if (by_row) {
        const std::byte* from =
            base[k] + offset_of(index, plan.strides[k]) * size_of(plan.dtypes[k]);
        const int64_t stride = plan.strides[k][plan.rank - 1];
        const bool is_dense = stride == 1 && !plan.widened[k];
        const bool is_single = k == params.single;
        // The row's element, which the preceding chunk may have replicated.
        const bool is_held = stride == 0 && held[k] == from && held_count[k] >= n;
        if (!is_dense && !is_single && !is_held) {
          plan.gather_rows[k]({from, 0, stride, 1, n}, buffers[k]);
          held[k] = from;
          held_count[k] = n;
        }
        x[k] = is_dense || is_single ? from : buffers[k];
      } else if (plan.linear[k]) {
        plan.gather_rows[k]({base[k] + at * size_of(plan.dtypes[k]), 0, 1, 1, n}, buffers[k]);
        x[k] = buffers[k];
      } else {
        if (!gatherers[k].is_started()) gatherers[k].start(plan, k, base[k], at);
        gatherers[k].gather(plan, k, n, buffers[k]);
        x[k] = buffers[k];
      }
    }
    if (plan.narrowed) {
      const void* const result = params.copies ? x[0] : buffers[kMaxOperands];
      if (!params.copies) plan.block(buffers[kMaxOperands], x, n, params);
      write(plan, result, n, y + (at - begin) * y_size);
    } else {
      plan.block(y + (at - begin) * y_size, x, n, params);
    }
    at += n;
    if (!by_row) continue;
    index[plan.rank - 1] += n;
    for (int d = plan.rank - 1; d > 0 && index[d] == plan.shape[d]; --d) {
      index[d] = 0;
      ++index[d - 1];
    }
  }
}

bool is_across(const PointwisePlan& plan, int k) {
  const Sizes& strides = plan.strides[k];
  return strides[plan.across] == 1 && strides[plan.rank - 1] != 0;
}

bool is_number(const PointwisePlan& plan, int k) { return plan.strides[k] == Sizes(plan.rank, 0); }

// Elements of operand k, starting at `from`, as contiguous rows.
void gather_tile(const PointwisePlan& plan, int k, const std::byte* from, int64_t rows,
                 int64_t columns, std::byte* to) {
  const int64_t size = size_of(plan.dtypes[k]);
  const int64_t stride = plan.strides[k][plan.rank - 1];
  if (!is_across(plan, k)) {
    plan.gather_rows[k]({from, plan.strides[k][plan.across], stride, rows, columns}, to);
    return;
  }
  std::byte* raw = plan.widened[k] ? to + rows * columns * read_size(plan, k) : to;
  const DType dtype = plan.dtypes[k];
  if (size == 4)
    transpose_words()(reinterpret_cast<const uint32_t*>(from), stride,
                      reinterpret_cast<uint32_t*>(raw), columns, rows, columns);
  else
    copy_elements(ConstTensor(from, dtype, {rows, columns}, {1, stride}),
                  Tensor{raw, dtype, {rows, columns}, {columns, 1}});
  if (plan.widened[k]) plan.gather_rows[k]({raw, 0, 1, 1, rows * columns}, to);
}

// Tiles of one range. The block writes the result in place where it can: all rows at once, or row
// by row.
class Tiles {
 public:
  Tiles(const PointwisePlan& plan, const PointwiseParams& params, const RunContext& c, std::byte* y)
      : plan_(plan), params_(params), c_(c), y_(y), dense_(contiguous_strides(plan.shape)) {}

  // The tile whose first element has this index.
  void run(const int64_t* index) {
    const int last = plan_.rank - 1;
    const int64_t rows = std::min(plan_.tile_rows, plan_.shape[plan_.across] - index[plan_.across]);
    const int64_t columns = std::min(plan_.tile_columns, plan_.shape[last] - index[last]);
    const bool is_run = plan_.across + 1 == last && columns == plan_.shape[last];
    const bool by_row = !is_run && plan_.tile_columns >= kLongRow;
    const void* x[kMaxOperands];
    int64_t steps[kMaxOperands];  // from row to row
    std::byte* room = buffer_;
    for (int k = 0; k < plan_.inputs; ++k) {
      const Sizes& strides = plan_.strides[k];
      const int64_t size = size_of(plan_.dtypes[k]), across = strides[plan_.across];
      const std::byte* const from = static_cast<const std::byte*>(c_.in(plan_.source[k]).data) +
                                    offset_of(index, strides) * size;
      x[k] = from;
      steps[k] = across * size;
      if (k == params_.single) continue;
      if (!plan_.widened[k] && strides[last] == 1 && (by_row || (is_run && across == columns)))
        continue;
      x[k] = room;
      steps[k] = columns * read_size(plan_, k);
      const int64_t most = plan_.tile_rows * plan_.tile_columns;
      if (!is_number(plan_, k))
        gather_tile(plan_, k, from, rows, columns, room);
      else if (!is_filled_)
        plan_.gather_rows[k]({from, 0, 0, 1, most}, room);
      room += ceil_div(most * tile_size(plan_, k), kLine) * kLine;
    }
    is_filled_ = true;
    const int64_t size = size_of(plan_.out_dtype), step = dense_[plan_.across] * size;
    std::byte* const out = y_ + offset_of(index, dense_) * size;
    if (!is_run && !by_row) {
      plan_.block(room, x, rows * columns, params_);
      for (int64_t r = 0; r < rows; ++r)
        write(plan_, room + r * columns * written_size(plan_), columns, out + r * step);
      return;
    }
    const int64_t n = is_run ? rows * columns : columns;
    for (int64_t r = 0; r < (is_run ? 1 : rows); ++r) {
      plan_.block(plan_.narrowed ? room : out + r * step, x, n, params_);
      if (plan_.narrowed) write(plan_, room, n, out + r * step);
      for (int k = 0; k < plan_.inputs; ++k) x[k] = static_cast<const std::byte*>(x[k]) + steps[k];
    }
  }

 private:
  const PointwisePlan& plan_;
  const PointwiseParams& params_;
  const RunContext& c_;
  std::byte* y_;  // the whole result
  Sizes dense_;
  bool is_filled_ = false;
  alignas(64) std::byte buffer_[kTileBytes];
};

void run_tiles(const PointwisePlan& plan, const RunContext& c, std::byte* y) {
  const int last = plan.rank - 1;
  Sizes tiles = plan.shape;
  tiles[plan.across] = ceil_div(tiles[plan.across], plan.tile_rows);
  tiles[last] = ceil_div(tiles[last], plan.tile_columns);
  const int64_t grain = ceil_div(kGrain, plan.tile_rows * plan.tile_columns);
  c.parallel_for(tiles.count(), grain, [&](int64_t begin, int64_t end) {
    checked(plan, c, [&](const PointwiseParams& params) {
      Tiles range(plan, params, c, y);
      for (int64_t tile = begin; tile < end; ++tile) {
        int64_t index[kMaxRank];
        find_index(tile, tiles, index);
        index[plan.across] *= plan.tile_rows;
        index[last] *= plan.tile_columns;
        range.run(index);
      }
    });
  });
}

// Computes elements [begin, end) of the result, at y.
void run_range(const PointwisePlan& plan, const RunContext& c, int64_t begin, int64_t end,
               std::byte* y) {
  checked(plan, c,
          [&](const PointwiseParams& params) { run_blocks(plan, params, c, begin, end, y); });
}

// Fills buffers of repeating operands once per range: a chunk has whole periods.
void choose_chunk(PointwisePlan& plan) {
  const int64_t elements = buffer_elements(plan), most = is_by_row(plan) ? 1 : elements;
  int64_t periods[kMaxOperands], longest = 1;
  for (int k = 0; k < plan.inputs; ++k) {
    periods[k] = std::max<int64_t>(1, period_of(plan, k));
    if (periods[k] <= most) longest = std::max(longest, periods[k]);
  }
  plan.chunk = elements / longest * longest;
  for (int k = 0; k < plan.inputs; ++k)
    plan.repeats[k] = periods[k] <= most && longest % periods[k] == 0;
}

void choose_tiles(PointwisePlan& plan) {
  const int last = plan.rank - 1;
  for (int k = 0; k < plan.inputs && plan.across < 0 && plan.count > 0; ++k)
    for (int d = 0; d < last; ++d)
      if (plan.strides[k][d] == 1 && plan.strides[k][last] > 1 && plan.shape[d] >= 4)
        plan.across = d;
  if (plan.across < 0) return;
  int64_t bytes = written_size(plan);
  for (int k = 0; k < plan.inputs; ++k) bytes += tile_size(plan, k);
  const int64_t most = (kTileBytes - kLine * (plan.inputs + 1)) / bytes;
  const int64_t rows = plan.shape[plan.across];
  const int64_t columns = most / std::min(rows, kTileRows) / kTileRows * kTileRows;
  // Columns in equal parts of whole vectors, and as many whole lines of memory of rows as fit.
  const int64_t parts = ceil_div(plan.shape[last], columns);
  plan.tile_columns = std::min(plan.shape[last],
                               ceil_div(ceil_div(plan.shape[last], parts), kTileRows) * kTileRows);
  plan.tile_rows = most / plan.tile_columns;
  if (plan.tile_rows > kTileRows) plan.tile_rows -= plan.tile_rows % kTileRows;
  plan.tile_rows = std::min(rows, plan.tile_rows);
}

// The first operand that has one element per row, or for all tiles, which the block itself repeats.
void choose_single(PointwisePlan& plan) {
  const bool in_tiles = plan.across >= 0;
  if (!plan.params.reads_single || plan.rank == 0 || (!in_tiles && !is_by_row(plan))) return;
  for (int k = 0; k < plan.inputs; ++k) {
    const bool is_single =
        in_tiles ? is_number(plan, k) : plan.strides[k][plan.rank - 1] == 0 && !plan.repeats[k];
    if (!is_single || plan.linear[k] || plan.widened[k]) continue;
    plan.params.single = k;
    return;
  }
}

// Rows that the block reads and writes in place need no buffers, so they are computed at once.
void lengthen_chunk(PointwisePlan& plan) {
  if (!is_by_row(plan) || plan.narrowed) return;
  for (int k = 0; k < plan.inputs; ++k)
    if (!plan.number[k] && k != plan.params.single &&
        (plan.widened[k] || plan.strides[k][plan.rank - 1] != 1))
      return;
  plan.chunk = plan.count;
  plan.in_place = !plan.params.copies;
}

}  // namespace

Status prepare_block(PrepareContext& c, Block block, const PointwiseParams& params,
                     std::shared_ptr<const void> program) {
  PointwisePlan plan;
  plan.block = block;
  plan.params = params;
  plan.program = std::move(program);
  for (int i = 0; i < c.input_count(); ++i) {
    if (!c.has(i)) continue;
    if (plan.inputs == kMaxOperands) return c.fail("has more than ", kMaxOperands, " inputs");
    plan.source[plan.inputs++] = i;
  }
  const Tensor& out = c.out(0);
  plan.count = out.count();
  plan.out_dtype = out.dtype;
  plan.narrowed = out.dtype == f16 || out.dtype == bf16;
  // Broadcast strides, then merges neighboring dims that every operand steps through as one.
  Sizes wide[kMaxOperands];
  for (int k = 0; k < plan.inputs; ++k) {
    const Tensor& in = c.in(plan.source[k]);
    plan.dtypes[k] = in.dtype;
    plan.widened[k] = in.dtype == f16 || in.dtype == bf16;
    const int missing = out.rank() - in.rank();
    for (int d = 0; d < out.rank(); ++d) {
      const bool repeated = d < missing || in.shape[d - missing] == 1;
      wide[k].push_back(repeated ? 0 : in.strides[d - missing]);
    }
  }
  for (int d = 0; d < out.rank(); ++d) {
    if (out.shape[d] == 1) continue;
    const int last = plan.shape.rank() - 1;
    bool merge = last >= 0;
    for (int k = 0; merge && k < plan.inputs; ++k)
      merge = plan.strides[k][last] == wide[k][d] * out.shape[d];
    if (merge)
      plan.shape[last] *= out.shape[d];
    else
      plan.shape.push_back(out.shape[d]);
    for (int k = 0; k < plan.inputs; ++k) {
      if (merge)
        plan.strides[k][last] = wide[k][d];
      else
        plan.strides[k].push_back(wide[k][d]);
    }
  }
  plan.rank = plan.shape.rank();
  plan.all_direct = !plan.narrowed;
  const Sizes dense = contiguous_strides(plan.shape);
  for (int k = 0; k < plan.inputs; ++k) {
    plan.gather_rows[k] = gather_rows_of(plan.dtypes[k]);
    plan.linear[k] = plan.strides[k] == dense;
    const bool is_single = plan.strides[k] == Sizes(plan.rank, 0);
    plan.number[k] = is_single && !plan.widened[k] && (params.same >> k & 1) != 0;
    plan.all_direct = plan.all_direct && (plan.number[k] || plan.linear[k]) && !plan.widened[k];
  }
  choose_chunk(plan);
  choose_tiles(plan);
  choose_single(plan);
  lengthen_chunk(plan);
  c.make_state(plan);
  return {};
}

ChosenBlock chosen_block(const PrepareContext& c) {
  const auto& plan = *c.state<PointwisePlan>();
  return {plan.block, plan.params};
}

Status prepare_pointwise(PrepareContext& c, const BlockTable& table) {
  const DType dtype = c.in(table.key).dtype;
  Block block = table.blocks[static_cast<int>(dtype)];
  if (block == nullptr && (dtype == f16 || dtype == bf16)) block = table.blocks[0];
  if (block == nullptr) return c.fail("is not defined for ", dtype);
  PointwiseParams params;
  if (table.params != nullptr) table.params(c, params);
  return prepare_block(c, block, params);
}

void run_pointwise(const RunContext& c) noexcept {
  const PointwisePlan& plan = c.state<PointwisePlan>();
  std::byte* const y = static_cast<std::byte*>(c.out(0).data);
  if (plan.across >= 0) return run_tiles(plan, c, y);
  c.parallel_for(plan.count, kGrain, [&](int64_t begin, int64_t end) {
    run_range(plan, c, begin, end, y + begin * size_of(plan.out_dtype));
  });
}

void compute_block(const void* plan, const RunContext& c, int64_t begin, int64_t end, void* y) {
  run_range(*static_cast<const PointwisePlan*>(plan), c, begin, end, static_cast<std::byte*>(y));
}

}  // namespace hg::kernels
