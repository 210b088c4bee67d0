// SPDX-License-Identifier: Apache-2.0
// f32 convolutions without a patch matrix. A tile of x is copied once with zero padding, and
// columns with equal remainder modulo the stride become adjacent. The values that a kernel element
// multiplies for neighboring outputs are then adjacent too, and the matrix product reads them from
// the copy.
#include <algorithm>
#include <vector>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/conv/conv_patches.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/conv/padded_rows.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kPiece = 320;  // of c kernel, at most, whole channels
constexpr int64_t kTile = 256;   // output pixels of a tile
constexpr int64_t kFewColumns = 4;
// Measured costs, in products of one element: reading operands through offsets, and gathering an
// element, without and with a stride.
constexpr double kOffsetCost = 1.08, kGatherCost = 16, kStridedCost = 36;
constexpr int64_t kSlack = 64;  // elements that the last vectors may read beyond the copy

struct ConvDirect {
  ConvShape s;
  const GemmTable* table = nullptr;
  const PaddedRowsTable* rows = nullptr;
  const float* packed = nullptr;  // [groups][pieces][blocks of rows][piece][rows]
  int64_t channels = 1;           // of a piece
  int64_t tile_y = 1, tile_x = 1, tiles_y = 1, tiles_x = 1, tiles_o = 1;
  std::vector<int64_t> first_o;  // of each tile of output channels, and the end
  // The copy: [channels][in_z][in_y][remainders][phase_width].
  int64_t in_z = 1, in_y = 1, phase_width = 0, row_step = 0, channel_step = 0;
  std::vector<int64_t> offset;  // of the elements of a piece
  int64_t lanes = 1, slot_bytes = 0;

  int64_t taps() const { return s.kernel_size(); }
  int64_t depth() const { return s.group_c() * taps(); }
};

// How full vectors are: here each row of y is padded to whole vectors, while a patch matrix has no
// rows.
bool accepts(const PrepareContext& c) {
  if (c.out(0).dtype != f32 || c.attrs().flag("transposed") || c.out(0).count() == 0) return false;
  const ConvShape s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  if (s.group_c() == 0 || skips_taps(s)) return false;
  const bool plain = s.kernel_size() == 1 && s.padding == ConvShape::Spatial{0, 0, 0};
  const int64_t nr = gemm_table().nr, lanes = nr / 2, rest = s.out_size() % nr;
  const int64_t direct = s.out[0] * s.out[1] * ceil_div(s.out[2], lanes) * lanes;
  // In the other method, few columns beyond the second to last panel are multiplied separately, and
  // an element of the patches is gathered for the products with each output channel.
  const int64_t columns = s.out_size() - rest + (rest > kFewColumns ? nr : rest);
  const double gathering = s.stride[2] > 1 ? kStridedCost : kGatherCost;
  return !plain &&
         static_cast<double>(direct) * kOffsetCost <=
             static_cast<double>(columns) * (1 + gathering / static_cast<double>(s.group_o()));
}

void choose_tiles(ConvDirect& w, int threads) {
  const ConvShape& s = w.s;
  const int64_t nr = w.table->nr;
  w.tiles_x = ceil_div(s.out[2], 2 * kTile);
  w.tile_x = ceil_div(ceil_div(s.out[2], w.tiles_x), nr) * nr;
  w.tile_x = std::min(w.tile_x, s.out[2]);
  w.tiles_x = ceil_div(s.out[2], w.tile_x);
  const int64_t fit = std::max<int64_t>(1, kTile / w.tile_x);
  w.tiles_y = ceil_div(s.out[1], fit);
  const int64_t others = std::max<int64_t>(1, s.n * s.groups * s.out[0] * w.tiles_x);
  const int64_t work = s.out_size() * w.depth() * s.group_o();
  // Splits into more tiles for several threads while each has enough work: first rows, then
  // channels.
  while (others * w.tiles_y < 8 && w.tiles_y < s.out[1] && work / w.tiles_y > 2000000 &&
         s.out[1] / w.tiles_y > 3)
    ++w.tiles_y;
  const int64_t blocks = ceil_div(s.group_o(), w.table->mr);
  w.tiles_o = 1;
  while (others * w.tiles_y * w.tiles_o < 8 && w.tiles_o * 8 <= blocks &&
         work / (w.tiles_y * w.tiles_o) > 4000000)
    w.tiles_o *= 2;
  w.first_o = row_parts(s.group_o(), w.table->mr, w.tiles_o);
  w.tiles_o = static_cast<int64_t>(w.first_o.size()) - 1;
  if (others * w.tiles_y * w.tiles_o > 1)
    w.tiles_y = shared_equally(w.tiles_y, s.out[1], others * w.tiles_o, threads);
  w.tile_y = ceil_div(s.out[1], w.tiles_y);
}

Status prepare(PrepareContext& c) {
  ConvDirect w;
  w.s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  const ConvShape& s = w.s;
  w.table = &gemm_table();
  w.rows = &padded_rows_table();
  const int64_t most = std::clamp<int64_t>(kPiece / w.taps(), 1, s.group_c());
  w.channels = ceil_div(s.group_c(), ceil_div(s.group_c(), most));  // in equal parts
  choose_tiles(w, c.threads());
  const auto reach = [&](size_t d) { return (s.kernel[d] - 1) * s.dilation[d]; };
  w.in_z = reach(0) + 1;
  w.in_y = (w.tile_y - 1) * s.stride[1] + reach(1) + 1;
  w.phase_width = w.tile_x + reach(2) / s.stride[2];
  w.row_step = std::min(s.stride[2], reach(2) + 1) * w.phase_width;
  // An odd number of cache lines, so that channels do not compete for the same cache sets.
  w.channel_step = (ceil_div(w.in_z * w.in_y * w.row_step, 16) | 1) * 16;
  for (int64_t channel = 0; channel < w.channels; ++channel)
    for (int64_t kz = 0; kz < s.kernel[0]; ++kz)
      for (int64_t ky = 0; ky < s.kernel[1]; ++ky)
        for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
          const int64_t row = kz * s.dilation[0] * w.in_y + ky * s.dilation[1];
          const int64_t x = kx * s.dilation[2];
          w.offset.push_back(channel * w.channel_step + row * w.row_step +
                             x % s.stride[2] * w.phase_width + x / s.stride[2]);
        }
  if (c.is_constant(1)) {
    const float* weight = c.in(1).as<float>();
    const int64_t rows = s.group_o(), depth = w.depth(), piece_depth = w.channels * w.taps();
    w.packed = static_cast<const float*>(c.pack(
        1, str_cat("conv.direct", w.table->mr, "/", s.groups), s.o * depth * 4,
        [=, groups = s.groups, mr = w.table->mr](void* to) {
          for (int64_t group = 0; group < groups; ++group)
            for (int64_t k0 = 0; k0 < depth; k0 += piece_depth)
              pack_rows(rows, std::min(piece_depth, depth - k0), weight + group * rows * depth + k0,
                        depth, 1, mr, static_cast<float*>(to) + (group * depth + k0) * rows);
        }));
  }
  w.lanes = tile_lanes(c, s.n * s.groups * s.out[0] * w.tiles_y * w.tiles_x * w.tiles_o);
  w.slot_bytes = (w.channels * w.channel_step + kSlack) * 4;
  c.set_workspace(tile_workspace(w.lanes, w.slot_bytes));
  c.make_state(std::move(w));
  return {};
}

struct Tile {
  int64_t z, y, x, rows, columns;  // of y
};

// Whether some kernel element reads this row of the copy.
bool is_met(const ConvShape& s, int64_t row) {
  for (int64_t ky = 0; ky < s.kernel[1]; ++ky)
    if ((row - ky * s.dilation[1]) % s.stride[1] == 0) return true;
  return false;
}

// The last vector of a row may read a vector beyond it, whose sums are discarded. What earlier
// nodes left there may be subnormal numbers, which are slow: these elements become zeros.
void copy_channel(const ConvDirect& w, const Tile& tile, const float* x, float* to) {
  const ConvShape& s = w.s;
  const int64_t first_x = tile.x * s.stride[2] - s.padding[2];
  const int64_t skipped = std::max<int64_t>(0, first_x), left = std::max<int64_t>(0, -first_x);
  const int64_t remainders = w.row_step / w.phase_width, lanes = w.table->nr / 2;
  for (int64_t kz = 0; kz < s.kernel[0]; ++kz) {
    const int64_t in_z = tile.z * s.stride[0] - s.padding[0] + kz * s.dilation[0];
    const bool has_z = in_z >= 0 && in_z < s.in[0];
    float* row_to = to + kz * s.dilation[0] * w.in_y * w.row_step;
    const int64_t rows = w.in_y - (w.tile_y - tile.rows) * s.stride[1];
    for (int64_t row = 0; row < rows; ++row, row_to += w.row_step) {
      if (!is_met(s, row)) {
        w.rows->clear(lanes, row_to);
        continue;
      }
      const int64_t in_y = tile.y * s.stride[1] - s.padding[1] + row;
      if (!has_z || in_y < 0 || in_y >= s.in[1] || skipped >= s.in[2])
        w.rows->clear(w.row_step, row_to);
      else
        w.rows->pad_row(x + (in_z * s.in[1] + in_y) * s.in[2] + skipped, s.in[2] - skipped, left,
                        s.stride[2], remainders, w.phase_width, row_to);
    }
    w.rows->clear(lanes, row_to);
  }
}

struct Operands {
  explicit Operands(const RunContext& c)
      : x(c.in(0).as<float>()),
        weight(c.in(1).as<float>()),
        bias(c.has(2) ? c.in(2).as<float>() : nullptr),
        residual(c.has(3) ? c.in(3).as<float>() : nullptr),
        y(c.out(0).as<float>()) {}
  const float *x, *weight, *bias, *residual;
  float* y;
};

// Some channels of x under one tile of y: a piece of the sum.
struct Piece {
  int64_t c0 = 0, channels = 0, depth = 0;  // depth: of k
};

// One task: a tile of the pixels of an image, for some of the output channels of a group.
class Task {
 public:
  Task(const ConvDirect& w, const Operands& in, int64_t index, float* slot)
      : w_(w), in_(in), slot_(slot), lanes_(w.table->nr / 2) {
    const ConvShape& s = w.s;
    const int64_t spatial = s.out[0] * w.tiles_y * w.tiles_x;
    const int64_t part = index / w.tiles_o % spatial, row_tile = part / w.tiles_x % w.tiles_y;
    image_group_ = index / (spatial * w.tiles_o);
    group_ = image_group_ % s.groups;
    o_range_ = &w.first_o[index % w.tiles_o];
    tile_ = {part / (w.tiles_y * w.tiles_x), part_begin(s.out[1], w.tiles_y, row_tile),
             part % w.tiles_x * w.tile_x, 0, 0};
    tile_.rows = part_begin(s.out[1], w.tiles_y, row_tile + 1) - tile_.y;
    tile_.columns = std::min(w.tile_x, s.out[2] - tile_.x);
    // x: [n groups, group_c, ...], y: [n groups, group_o, ...]
    first_ = image_group_ * s.group_o() * s.out_size() + (tile_.z * s.out[1] + tile_.y) * s.out[2] +
             tile_.x;
    row_vectors_ = ceil_div(tile_.columns, lanes_);
    vectors_ = tile_.rows * row_vectors_;
  }

  void run() const {
    const ConvShape& s = w_.s;
    for (int64_t c0 = 0; c0 < s.group_c(); c0 += w_.channels) {
      const int64_t channels = std::min(w_.channels, s.group_c() - c0);
      const Piece piece = {c0, channels, channels * w_.taps()};
      for (int64_t i = 0; i < channels; ++i)
        copy_channel(w_, tile_, in_.x + (image_group_ * s.group_c() + c0 + i) * s.in_size(),
                     slot_ + i * w_.channel_step);
      int64_t end;
      for (int64_t begin = o_range_[0]; begin < o_range_[1]; begin = end) {
        end = std::min(o_range_[1], end_of_rows(begin, s.group_o(), piece.depth, w_.table->mr));
        multiply_rows(piece, begin, end);
      }
    }
  }

 private:
  // Output channels [begin, end), whose packed weights stay in the second cache.
  void multiply_rows(const Piece& piece, int64_t begin, int64_t end) const {
    const int64_t group_o = w_.s.group_o();
    int count;
    // Each row of y is written in one pass if the copy stays in the first-level cache.
    if (piece.channels * w_.channel_step <= kFirstCacheFloats) {
      for (int64_t o = begin; o < end; o += count) {
        count = block_rows(group_o - o, w_.table->mr);
        for (int64_t v = 0; v < vectors_; v += 2) multiply(piece, columns_at(v), o, count);
      }
      return;
    }
    for (int64_t v = 0; v < vectors_; v += 2) {
      const Columns columns = columns_at(v);
      for (int64_t o = begin; o < end; o += count) {
        count = block_rows(group_o - o, w_.table->mr);
        multiply(piece, columns, o, count);
      }
    }
  }

  // The pixels of vectors v and v + 1.
  Columns columns_at(int64_t v) const {
    Columns columns = {.vectors = static_cast<int>(std::min<int64_t>(2, vectors_ - v))};
    for (int t = 0; t < columns.vectors; ++t) {
      const int64_t row = (v + t) / row_vectors_;
      int64_t column = (v + t) % row_vectors_ * lanes_;
      // The last vector of a row is whole if the vector before it is in the same block.
      if (t == 1 && column > 0 && column + lanes_ > tile_.columns) {
        columns.shared = static_cast<int>(column + lanes_ - tile_.columns);
        column = tile_.columns - lanes_;
      }
      columns.x[t] = slot_ + row * w_.s.stride[1] * w_.row_step + column;
      columns.at[t] = row * w_.s.out[2] + column;
      columns.valid[t] = static_cast<int>(std::min(lanes_, tile_.columns - column));
    }
    return columns;
  }

  // `count` output channels from o on.
  void multiply(const Piece& piece, const Columns& columns, int64_t o, int count) const {
    const ConvShape& s = w_.s;
    const int64_t depth = w_.depth(), size = s.out_size(), k0 = piece.c0 * w_.taps();
    Block block = {.rows = count,
                   .k = piece.depth,
                   .y = in_.y + first_ + o * size,
                   .y_row = size,
                   .add = piece.c0 > 0};
    if (w_.packed) {
      block.a = w_.packed + (group_ * depth + k0) * s.group_o() + o * piece.depth;
      block.a_row = 1;
      block.a_col = count;
    } else {
      block.a = in_.weight + (group_ * s.group_o() + o) * depth + k0;
      block.a_row = depth;
      block.a_col = 1;
    }
    const Epilogue e = {.activation = s.activation,
                        .row_bias = in_.bias ? in_.bias + group_ * s.group_o() + o : nullptr,
                        .residual = in_.residual ? in_.residual + first_ + o * size : nullptr};
    if (piece.c0 + piece.channels == s.group_c() && !e.empty()) block.epilogue = &e;
    w_.table->gather(block, columns, w_.offset.data());
  }

  const ConvDirect& w_;
  const Operands& in_;
  float* slot_;  // the copy of the piece's channels
  int64_t lanes_, image_group_ = 0, group_ = 0;
  const int64_t* o_range_ = nullptr;
  Tile tile_;
  int64_t first_ = 0;  // element of y
  int64_t row_vectors_ = 0, vectors_ = 0;
};

void run(const RunContext& c) noexcept {
  const ConvDirect& w = c.state<ConvDirect>();
  const ConvShape& s = w.s;
  const Operands in(c);
  const int64_t tasks = s.n * s.groups * s.out[0] * w.tiles_y * w.tiles_x * w.tiles_o;
  for_tiles(c, tasks, w.lanes, w.slot_bytes,
            [&](int64_t index, float* slot) { Task(w, in, index, slot).run(); });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv", .name = "direct", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_direct() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
