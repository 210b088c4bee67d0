// SPDX-License-Identifier: Apache-2.0
// Convolutions with Precision::bf16 as products of pairs in tiles (AMX): y[o, pixels] = weight[o,
// taps pairs] patches[taps pairs, pixels]. A pair is two neighboring channels, rounded. For each
// column of the kernel, the pairs of a channel are a plane with the columns that y reads alone, so
// that its lines follow each other as those of y do, and every tap reads a plane at a line. 1x1
// kernels without strides read x itself. Patches are packed into panels, unless the channels fill
// whole tiles and lines fill vectors well: then tiles read the planes.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/conv/column_parts.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/conv/strided_lines.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kMaxColumns = 256;      // pixels of a tile
constexpr int64_t kPanelBytes = 1 << 19;  // of a tile, in the second-level cache
constexpr int64_t kLeastPixels = 8;       // fewer are limited by reading the weights
constexpr int64_t kLeastDepth = 16;
constexpr double kMostGaps = 1.25;       // columns of lines with those between them, to read planes
constexpr int64_t kCopyGrain = 1 << 14;  // pairs that are copied in one task

struct ConvTiles : ColumnParts {
  ConvShape s;
  const PairTable* pairs = nullptr;
  bool plain = false;               // the patches are x itself
  const float* packed = nullptr;    // [groups][blocks of rows], as PairTable describes
  std::vector<int64_t> packed_row;  // of a group, by the first row of a block, among padded rows
  int64_t group_pairs = 0;          // of the channels of a group
  int64_t depth = 0;                // pairs of a row of patches, in whole tiles
  // Planes: lines of `pitch` pairs, in this order.
  // With `direct`, tiles read them, and `pitch` is a multiple of 16.
  StridedLines lines;
  int64_t pitch = 0, plane = 0, line = 0;
  bool direct = false;
  std::vector<int64_t> offset;  // of each 16 pairs of a row of patches
  int64_t lanes = 1, slot_bytes = 0, planes_at = 0, lines_at = 0;

  int nr() const { return pairs->gemm.nr; }
  int mr() const { return pairs->gemm.mr; }
  // Of a product; `direct` ones include those between lines.
  int64_t columns() const { return s.out[1] * pitch; }
  int64_t column_at(int64_t index) const { return first_column(index, columns(), nr()); }
  int64_t images() const { return s.n * s.groups; }
};

bool accepts(const PrepareContext& c) {
  if (c.precision() != Precision::bf16 || !tile_pair_table() || c.out(0).dtype != f32 ||
      c.attrs().flag("transposed") || c.attrs().flag("exact") || !c.is_constant(1) ||
      c.low_memory() || c.out(0).count() == 0)
    return false;
  const ConvShape s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  return s.group_c() > 1 && s.group_c() * s.kernel_size() >= kLeastDepth &&
         s.out_size() >= kLeastPixels && s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 &&
         s.padding[0] == 0;
}

void pack_weight(const ConvTiles& g, const float* weight, float* to) {
  const ConvShape& s = g.s;
  const int64_t channels = s.group_c(), taps = s.kernel_size();
  auto* halves = reinterpret_cast<BFloat16*>(to);
  for (int64_t group = 0; group < s.groups; ++group) {
    int count;
    for (int64_t i = 0; i < s.group_o(); i += count) {
      count = block_rows(s.group_o() - i, g.mr());
      const int64_t rows = whole_tiles(count);
      std::fill_n(halves, rows * g.depth * 2, BFloat16());
      for (int64_t r = 0; r < count; ++r) {
        const float* const row = weight + (group * s.group_o() + i + r) * channels * taps;
        for (int64_t tap = 0; tap < taps; ++tap)
          for (int64_t c = 0; c < channels; ++c) {
            const int64_t pair = tap * g.group_pairs + c / 2;
            const int64_t at = (pair / kTileSide * rows + r) * kTileSide;
            halves[(at + pair % kTileSide) * 2 + c % 2] = BFloat16(row[c * taps + tap]);
          }
      }
      halves += rows * g.depth * 2;
    }
  }
}

[[gnu::cold]] Status prepare(PrepareContext& c) {
  ConvTiles g;
  g.s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  const ConvShape& s = g.s;
  g.pairs = tile_pair_table();
  g.plain = s.kernel_size() == 1 && s.stride == ConvShape::Spatial{1, 1, 1} && s.in == s.out &&
            s.padding == ConvShape::Spatial{0, 0, 0};
  g.group_pairs = pairs_of(s.group_c());
  g.depth = g.pairs->pairs_of(2 * g.group_pairs * s.kernel_size());
  g.lines = StridedLines(s, 1);
  const int64_t whole = whole_tiles(s.out[2]);
  g.direct = !g.plain && g.group_pairs % kTileSide == 0 &&
             static_cast<double>(whole) <= kMostGaps * static_cast<double>(s.out[2]);
  g.pitch = g.direct ? whole : s.out[2];
  g.plane = g.lines.count() * g.pitch;
  for (int64_t tap = 0; tap < s.kernel_size() && g.direct; ++tap)
    for (int64_t p = 0; p < g.group_pairs; p += kTileSide)
      g.offset.push_back((p * s.kernel[2] + tap % s.kernel[2]) * g.plane +
                         g.lines.line_of(tap / s.kernel[2] * s.dilation[1]) * g.pitch);
  g.line = std::max((s.out[2] - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1,
                    s.padding[2] + s.in[2]) +
           g.nr();
  int64_t rows = 0;
  g.packed_row.resize(static_cast<size_t>(s.group_o()) + 1);
  int count;
  for (int64_t i = 0; i < s.group_o(); i += count) {
    count = block_rows(s.group_o() - i, g.mr());
    g.packed_row[static_cast<size_t>(i)] = rows;
    rows += whole_tiles(count);
  }
  g.packed_row.back() = rows;
  g.packed = static_cast<const float*>(c.pack(1, str_cat("conv.tiles/", s.groups),
                                              s.groups * rows * g.depth * 4,
                                              [g, weight = c.in(1).as<float>()](void* to) {
                                                pack_weight(g, weight, static_cast<float*>(to));
                                              }));
  if (!g.packed) return c.fail("has no memory for its weights");
  const int64_t fitting = kPanelBytes / (g.depth * g.nr() * 4);
  g.divide({.columns = g.columns(),
            .rows = s.group_o(),
            .images = g.images(),
            .products = s.out_size() * s.o * g.depth * 2,
            .most_panels = std::clamp<int64_t>(fitting, 1, kMaxColumns / g.nr()),
            .mr = g.mr(),
            .nr = g.nr(),
            .threads = c.threads()});
  g.lanes = tile_lanes(c, g.images() * g.tiles * g.parts());
  g.slot_bytes = g.direct ? 0 : g.tile * g.depth * 4;
  g.planes_at = slot_step(tile_workspace(g.lanes, g.slot_bytes));
  // Panels are read beyond the last plane.
  const int64_t planes = g.plain ? 0 : g.images() * g.group_pairs * s.kernel[2] * g.plane + g.nr();
  g.lines_at = g.planes_at + slot_step(planes * 4);
  c.set_workspace(g.lines_at + (g.plain ? 0 : g.images() * g.group_pairs * slot_step(g.line * 4)));
  c.make_state(std::move(g));
  return {};
}

// The planes of a pair of channels, one for each column of the kernel. odd: null for no channel.
// `line`: memory for one.
void copy_planes(const ConvTiles& g, const float* even, const float* odd, float* line, float* to) {
  const ConvShape& s = g.s;
  const int64_t width = s.in[2], count = s.out[2];
  for (int64_t y = 0; y < g.lines.count(); ++y) {
    if (!g.lines.reads(y)) continue;
    float* const at = to + g.lines.line_of(y) * g.pitch;
    const int64_t row = y - s.padding[1];
    if (row < 0 || row >= s.in[1]) {
      for (int64_t k = 0; k < s.kernel[2]; ++k) std::fill_n(at + k * g.plane, count, 0.0f);
      continue;
    }
    std::fill_n(line, s.padding[2], 0.0f);
    g.pairs->spread(width, even + row * width, odd ? odd + row * width : nullptr,
                    line + s.padding[2], g.nr());
    std::fill(line + s.padding[2] + width, line + g.line, 0.0f);
    for (int64_t k = 0; k < s.kernel[2]; ++k) {
      const float* const from = line + k * s.dilation[2];
      float* const plane = at + k * g.plane;
      if (s.stride[2] == 1)
        std::memcpy(plane, from, static_cast<size_t>(count * 4));
      else
        for (int64_t j = 0; j < count; ++j) plane[j] = from[j * s.stride[2]];
    }
  }
}

// The panels of a tile's pixels from `first` on. x: of the group.
void pack_patches(const ConvTiles& g, const float* x, const float* planes, int64_t first,
                  int64_t columns, float* panels) {
  const ConvShape& s = g.s;
  const int64_t nr = g.nr(), step = g.depth * nr, used = g.group_pairs * s.kernel_size();
  const int64_t wide = ceil_div(columns, nr) * nr;
  for (int64_t tap = 0; tap < s.kernel_size() && !g.plain; ++tap) {
    const int64_t line = g.lines.line_of(tap / s.kernel[2] * s.dilation[1]);
    g.pairs->gemm.pack(g.group_pairs, wide,
                       planes + tap % s.kernel[2] * g.plane + line * g.pitch + first,
                       s.kernel[2] * g.plane, 1, panels + tap * g.group_pairs * nr, step);
  }
  for (int64_t p = 0; p < g.group_pairs && g.plain; ++p) {
    const float* const even = x + 2 * p * s.in_size() + first;
    g.pairs->spread(columns, even, 2 * p + 1 < s.group_c() ? even + s.in_size() : nullptr,
                    panels + p * nr, step);
  }
  for (int64_t j = 0; j < wide / nr && used < g.depth; ++j)
    std::fill_n(panels + j * step + used * nr, (g.depth - used) * nr, 0.0f);
}

void run(const RunContext& c) noexcept {
  const ConvTiles& g = c.state<ConvTiles>();
  const ConvShape& s = g.s;
  const float* const x = c.in(0).as<float>();
  const float* const bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* const residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  float* const y = c.out(0).as<float>();
  char* const workspace = c.workspace<char>();
  auto* const planes = reinterpret_cast<float*>(workspace + g.planes_at);
  const int64_t channels = s.group_c(), rows = s.group_o(), size = s.out_size();
  const int64_t pair_planes = s.kernel[2] * g.plane, image_planes = g.group_pairs * pair_planes;
  if (!g.plain)
    c.parallel_for(
        g.images() * g.group_pairs, std::max<int64_t>(1, kCopyGrain / pair_planes),
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t channel = i % g.group_pairs * 2;
            const float* const even = x + (i / g.group_pairs * channels + channel) * s.in_size();
            copy_planes(
                g, even, channel + 1 < channels ? even + s.in_size() : nullptr,
                reinterpret_cast<float*>(workspace + g.lines_at + i * slot_step(g.line * 4)),
                planes + i * pair_planes);
          }
        });
  for_tiles(
      c, g.images() * g.tiles * g.parts(), g.lanes, g.slot_bytes, [&](int64_t task, float* panels) {
        const int64_t part = task % g.parts(), index = task / g.parts();
        const int64_t image = index / g.tiles, group = image % s.groups;
        const int64_t first = g.column_at(index % g.tiles);
        const int64_t columns = g.column_at(index % g.tiles + 1) - first;
        const float* const own_planes = planes + image * image_planes;
        const int64_t o = g.first_o[part];
        const int64_t at = (image * rows + o) * size + (g.direct ? 0 : first);
        const Epilogue e = {.activation = s.activation,
                            .row_bias = bias ? bias + group * rows + o : nullptr,
                            .residual = residual ? residual + at : nullptr};
        const int64_t packed = group * g.packed_row.back() + g.packed_row[o];
        const Sweep product = {.rows = g.first_o[part + 1] - o,
                               .columns = columns,
                               .k = g.depth,
                               .left = rows - o,
                               .a = g.packed + packed * g.depth,
                               .is_packed = true,
                               .panels = panels,
                               .panel_step = g.depth * g.nr(),
                               .y = y + at,
                               .y_row = size,
                               .epilogue = e.empty() ? nullptr : &e};
        if (g.direct)
          return g.pairs->sweep_planes({.product = product,
                                        .x = own_planes,
                                        .plane = s.kernel[2] * g.plane,
                                        .first = first,
                                        .pitch = g.pitch,
                                        .width = s.out[2],
                                        .offset = g.offset.data()});
        pack_patches(g, x + image * channels * s.in_size(), own_planes, first, columns, panels);
        g.pairs->gemm.sweep(product);
      });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv", .name = "tiles", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_tiles() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
