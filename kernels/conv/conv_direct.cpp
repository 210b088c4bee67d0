// SPDX-License-Identifier: Apache-2.0
// Convolutions in f32 without a matrix of patches. A tile of x is copied once with its zeros around
// it, the columns of equal remainder modulo the stride side by side, so that what a kernel element
// meets for neighbouring outputs lies together; the matrix product reads it from there.
#include <algorithm>
#include <vector>

#include "kernels/ceil_div.h"
#include "kernels/conv/conv_depthwise.h"
#include "kernels/conv/conv_patches.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/gemm/gemm.h"

namespace hg::kernels {
namespace {

constexpr int64_t kPiece = 320;        // of c kernel, at most, whole channels
constexpr int64_t kTile = 256;         // output pixels of a tile
constexpr int64_t kFirstCache = 6144;  // floats of a copy that stays there
constexpr int64_t kFewColumns = 4;
// Measured: of reading what is multiplied through offsets, and of gathering an element, in products
// of it.
constexpr double kOffsetCost = 1.08, kGatherCost = 16;
constexpr int64_t kSlack = 64;  // elements that the last vectors may read beyond the copy

struct ConvDirect {
  ConvShape s;
  const GemmTable* table = nullptr;
  const DepthwiseTable* rows = nullptr;
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

// How full vectors are: rows of y fill their own here, while a matrix of patches has no rows.
bool accepts(const PrepareContext& c) {
  if (c.out(0).dtype != f32 || c.attrs().flag("transposed") || c.out(0).count() == 0) return false;
  const ConvShape s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  if (s.group_c() == 0 || skips_taps(s)) return false;
  const bool plain = s.kernel_size() == 1 && s.padding == ConvShape::Spatial{0, 0, 0};
  const int64_t nr = gemm_table().nr, lanes = nr / 2, rest = s.out_size() % nr;
  const int64_t direct = s.out[0] * s.out[1] * ceil_div(s.out[2], lanes) * lanes;
  // The other way columns beyond the last panel but one are multiplied alone where they are few,
  // and an element of the patches is gathered for the products with each output channel.
  const int64_t columns = s.out_size() - rest + (rest > kFewColumns ? nr : rest);
  return !plain &&
         static_cast<double>(direct) * kOffsetCost <=
             static_cast<double>(columns) * (1 + kGatherCost / static_cast<double>(s.group_o()));
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
  // More tiles, for several threads, while each has enough to do: first of rows, then of channels.
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
  w.rows = &depthwise_table();
  const int64_t most = std::clamp<int64_t>(kPiece / w.taps(), 1, s.group_c());
  w.channels = ceil_div(s.group_c(), ceil_div(s.group_c(), most));  // in equal parts
  choose_tiles(w, c.threads());
  const auto reach = [&](size_t d) { return (s.kernel[d] - 1) * s.dilation[d]; };
  w.in_z = reach(0) + 1;
  w.in_y = (w.tile_y - 1) * s.stride[1] + reach(1) + 1;
  w.phase_width = w.tile_x + reach(2) / s.stride[2];
  w.row_step = std::min(s.stride[2], reach(2) + 1) * w.phase_width;
  // An odd number of cache lines, so that the channels do not share their places of the cache.
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
        1, text("conv.direct", w.table->mr, "/", s.groups), s.o * depth * 4,
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

// Whether some kernel element meets this row of the copy.
bool is_met(const ConvShape& s, int64_t row) {
  for (int64_t ky = 0; ky < s.kernel[1]; ++ky)
    if ((row - ky * s.dilation[1]) % s.stride[1] == 0) return true;
  return false;
}

void copy_channel(const ConvDirect& w, const Tile& tile, const float* x, float* to) {
  const ConvShape& s = w.s;
  const int64_t first_x = tile.x * s.stride[2] - s.padding[2];
  const int64_t skipped = std::max<int64_t>(0, first_x), left = std::max<int64_t>(0, -first_x);
  const int64_t remainders = w.row_step / w.phase_width;
  for (int64_t kz = 0; kz < s.kernel[0]; ++kz) {
    const int64_t in_z = tile.z * s.stride[0] - s.padding[0] + kz * s.dilation[0];
    const bool has_z = in_z >= 0 && in_z < s.in[0];
    float* row_to = to + kz * s.dilation[0] * w.in_y * w.row_step;
    const int64_t rows = w.in_y - (w.tile_y - tile.rows) * s.stride[1];
    for (int64_t row = 0; row < rows; ++row, row_to += w.row_step) {
      if (!is_met(s, row)) continue;
      const int64_t in_y = tile.y * s.stride[1] - s.padding[1] + row;
      if (!has_z || in_y < 0 || in_y >= s.in[1] || skipped >= s.in[2])
        w.rows->clear(w.row_step, row_to);
      else
        w.rows->pad_row(x + (in_z * s.in[1] + in_y) * s.in[2] + skipped, s.in[2] - skipped, left,
                        s.stride[2], remainders, w.phase_width, row_to);
    }
  }
}

void run(const RunContext& c) noexcept {
  const ConvDirect& w = c.state<ConvDirect>();
  const ConvShape& s = w.s;
  const float* x = c.in(0).as<float>();
  const float* weight = c.in(1).as<float>();
  const float* bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  float* y = c.out(0).as<float>();
  const int64_t lanes = w.table->nr / 2, size = s.out_size(), depth = w.depth();
  const int64_t spatial = s.out[0] * w.tiles_y * w.tiles_x;
  for_tiles(
      c, s.n * s.groups * spatial * w.tiles_o, w.lanes, w.slot_bytes,
      [&](int64_t index, float* slot) {
        const int64_t image_group = index / (spatial * w.tiles_o),
                      part = index / w.tiles_o % spatial;
        const int64_t group = image_group % s.groups;
        const int64_t* o_range = &w.first_o[static_cast<size_t>(index % w.tiles_o)];
        const int64_t row_tile = part / w.tiles_x % w.tiles_y;
        Tile tile = {part / (w.tiles_y * w.tiles_x), part_begin(s.out[1], w.tiles_y, row_tile),
                     part % w.tiles_x * w.tile_x, 0, 0};
        tile.rows = part_begin(s.out[1], w.tiles_y, row_tile + 1) - tile.y;
        tile.columns = std::min(w.tile_x, s.out[2] - tile.x);
        // x: [n groups, group_c, ...], y: [n groups, group_o, ...]
        const int64_t first =
            image_group * s.group_o() * size + (tile.z * s.out[1] + tile.y) * s.out[2] + tile.x;
        const int64_t row_vectors = ceil_div(tile.columns, lanes),
                      vectors = tile.rows * row_vectors;
        for (int64_t c0 = 0; c0 < s.group_c(); c0 += w.channels) {
          const int64_t channels = std::min(w.channels, s.group_c() - c0);
          for (int64_t i = 0; i < channels; ++i)
            copy_channel(w, tile, x + (image_group * s.group_c() + c0 + i) * s.in_size(),
                         slot + i * w.channel_step);
          const int64_t k0 = c0 * w.taps(), piece = channels * w.taps();
          int64_t end;
          for (int64_t begin = o_range[0]; begin < o_range[1]; begin = end) {
            end = std::min(o_range[1], end_of_rows(begin, s.group_o(), piece, w.table->mr));
            const auto columns_at = [&](int64_t v) {
              Columns columns = {.vectors = static_cast<int>(std::min<int64_t>(2, vectors - v))};
              for (int t = 0; t < columns.vectors; ++t) {
                const int64_t row = (v + t) / row_vectors;
                int64_t column = (v + t) % row_vectors * lanes;
                // The last vector of a row is whole where the one before it is in the same block.
                if (t == 1 && column > 0 && column + lanes > tile.columns) {
                  columns.shared = static_cast<int>(column + lanes - tile.columns);
                  column = tile.columns - lanes;
                }
                columns.x[t] = slot + row * s.stride[1] * w.row_step + column;
                columns.at[t] = row * s.out[2] + column;
                columns.valid[t] = static_cast<int>(std::min(lanes, tile.columns - column));
              }
              return columns;
            };
            const auto multiply = [&](const Columns& columns, int64_t o, int count) {
              Block block = {.rows = count,
                             .k = piece,
                             .y = y + first + o * size,
                             .y_row = size,
                             .add = c0 > 0};
              if (w.packed) {
                block.a = w.packed + (group * depth + k0) * s.group_o() + o * piece;
                block.a_row = 1;
                block.a_col = count;
              } else {
                block.a = weight + (group * s.group_o() + o) * depth + k0;
                block.a_row = depth;
                block.a_col = 1;
              }
              const Epilogue e = {.activation = s.activation,
                                  .row_bias = bias ? bias + group * s.group_o() + o : nullptr,
                                  .residual = residual ? residual + first + o * size : nullptr};
              if (c0 + channels == s.group_c() && !e.empty()) block.epilogue = &e;
              w.table->gather(block, columns, w.offset.data());
            };
            // Rows of y are written in one run each where the copy stays in the first cache.
            const bool rows_first = channels * w.channel_step <= kFirstCache;
            int count;
            if (rows_first) {
              for (int64_t o = begin; o < end; o += count) {
                count = block_rows(s.group_o() - o, w.table->mr);
                for (int64_t v = 0; v < vectors; v += 2) multiply(columns_at(v), o, count);
              }
              continue;
            }
            for (int64_t v = 0; v < vectors; v += 2) {
              const Columns columns = columns_at(v);
              for (int64_t o = begin; o < end; o += count) {
                count = block_rows(s.group_o() - o, w.table->mr);
                multiply(columns, o, count);
              }
            }
          }
        }
      });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv", .name = "direct", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_direct() { return kKernels; }

}  // namespace hg::kernels
