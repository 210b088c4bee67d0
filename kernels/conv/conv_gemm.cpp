// SPDX-License-Identifier: Apache-2.0
// Convolutions of f32 or halves as matrix products: y[o, pixels] = weight[o, c kernel] patches[c
// kernel, pixels]. Patches exist only as panels of one tile of pixels and one piece of c kernel;
// 1x1 kernels read x itself. In transposed convolutions, patches contain zeros where the stride
// leaves holes.
#include <algorithm>
#include <vector>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/conv/conv_patches.h"
#include "kernels/conv/half_numbers.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemv_simd.h"
#include "kernels/gemm/tiles.h"
#include "kernels/simd/half_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// For transposed kernels, whose sums are often differences of large terms: rounding errors grow
// with the number of terms that are added one after another.
constexpr int64_t kTransposedPiece = 32;
constexpr int64_t kMaxTile = 256;         // pixels of a tile
constexpr int64_t kTapTile = 64;          // of a tile without the patches that are only zeros
constexpr int64_t kKeyBytes = 64;         // of a slot: identifies the pixels
constexpr int64_t kLeastRows = 48;        // output channels that are worth sharing
constexpr int64_t kLeastPanels = 2;       // panels of pixels that are worth sharing
constexpr int64_t kLeastShared = 400000;  // products of a convolution that is worth sharing
// Costs of an element of the patches, in products of it: copying and gathering.
constexpr double kPackCost = 8, kGatherCost = 24;

struct ConvGemm {
  ConvShape s;
  const GemmTable* table = nullptr;
  const float* packed = nullptr;      // [groups][pieces of k][blocks of rows][piece][rows]
  const BFloat16* rounded = nullptr;  // the same for Precision::bf16, widened per tile
  const HalfTable* half = nullptr;
  HalfNumbers images;                // of x and y
  const PairTable* pairs = nullptr;  // both are rounded for Precision::bf16: `depth` counts pairs
  bool plain = false;                // the patches are x itself
  bool keeps = false;                // a lane keeps its panels for the next part of the same pixels
  bool by_taps = false;              // k is [kernel, group_c]; otherwise [group_c, kernel]
  int64_t depth = 0;                 // k: group_c kernel_size, or the pairs of it
  int64_t piece = kDepthPiece;       // of k, at most
  int64_t tile = 0, tiles = 0;       // pixels of the largest tile, tiles of an image's group
  std::vector<int64_t> first_o;      // of each part of the output channels, and the end
  int64_t lanes = 1, slot_bytes = 0;
  int64_t widened_at = 0, sums_at = 0, key_at = 0;  // in a slot, in floats
  int64_t bias_at = 0;                              // of halves: in the workspace, widened
  int64_t packed_at = 0;  // in the workspace, for transposed weights that are not constant

  int64_t parts() const { return static_cast<int64_t>(first_o.size()) - 1; }
  // The first pixel of a tile.
  int64_t pixel_at(int64_t index) const {
    const int64_t panels = ceil_div(s.out_size(), table->nr);
    return std::min(s.out_size(), part_begin(panels, tiles, index) * table->nr);
  }
  // Of a row of patches: as floats, and as halves or a second row of a pair.
  int64_t row_floats() const { return pairs || images ? 2 * tile : tile; }
  // Sums of halves stay in the slot until they are complete: of a block of rows, or of all rows.
  bool sums_blocks() const { return depth <= piece && !by_taps; }
  int64_t sum_rows() const {
    int64_t most = 0;
    for (size_t i = 1; i < first_o.size(); ++i) most = std::max(most, first_o[i] - first_o[i - 1]);
    return sums_blocks()
               ? std::min(most, kPackedRowsFloats / std::max<int64_t>(1, depth) + table->mr)
               : most;
  }
  // The end of the piece that begins at k0.
  int64_t end_of_piece(int64_t k0) const {
    const int64_t end = by_taps ? (k0 / s.group_c() + 1) * s.group_c() : depth;
    return std::min(k0 + piece, end);
  }
  // The element of [group_c, kernel] at k.
  int64_t element(int64_t k) const {
    return by_taps ? k % s.group_c() * s.kernel_size() + k / s.group_c() : k;
  }
  int64_t element_step() const { return by_taps ? s.kernel_size() : 1; }
};

// Transposed depthwise convolutions have too few products.
bool accepts(const PrepareContext& c) {
  return is_f32_or_packed_half(c) && (!c.attrs().flag("transposed") || c.in(1).shape[1] >= 4);
}

// The weights of all groups as packed rows; transposed ones are [c, o / groups, kernel...].
void pack_weight(const ConvGemm& g, const float* weight, float* to) {
  const ConvShape& s = g.s;
  const int64_t rows = s.group_o(), depth = g.depth, taps = s.kernel_size();
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t k0 = 0, piece = 0; k0 < depth; k0 += piece) {
      piece = g.end_of_piece(k0) - k0;
      float* at = to + (group * depth + k0) * rows;
      if (!s.transposed) {
        pack_rows(rows, piece, weight + group * rows * depth + g.element(k0), depth,
                  g.element_step(), g.table->mr, at);
        continue;
      }
      int count;
      for (int64_t i = 0; i < rows; i += count, at += count * piece) {
        count = block_rows(rows - i, g.table->mr);
        for (int64_t p = 0; p < piece; ++p) {
          const int64_t channel = group * s.group_c() + (k0 + p) / taps;
          for (int r = 0; r < count; ++r)
            at[p * count + r] = weight[(channel * rows + i + r) * taps + (k0 + p) % taps];
        }
      }
    }
}

// The same as pairs; the last one of a row ends with the vector's zero if depth is odd.
void pack_pairs(const ConvGemm& g, const float* weight, float* to) {
  const int64_t depth = g.s.group_c() * g.s.kernel_size(), rows = g.s.group_o();
  std::vector<float> pairs(static_cast<size_t>(rows * g.depth));
  for (int64_t group = 0; group < g.s.groups; ++group) {
    for (int64_t i = 0; i < rows; ++i, weight += depth)
      g.half->narrow(depth, weight, reinterpret_cast<BFloat16*>(pairs.data() + i * g.depth));
    for (int64_t k0 = 0; k0 < g.depth; k0 = g.end_of_piece(k0))
      pack_rows(rows, g.end_of_piece(k0) - k0, pairs.data() + k0, g.depth, 1, g.table->mr,
                to + (group * g.depth + k0) * rows);
  }
}

// Divides the work into tiles of about kMaxTile pixels or fewer, and parts of the output channels.
// Each part gathers its patches again unless the lane keeps them. Minimizes the work of the busiest
// lane. Returns the number of parts.
int64_t choose_tiles(ConvGemm& g, int64_t threads) {
  const ConvShape& s = g.s;
  const int64_t rows = s.group_o(), nr = g.table->nr, images = std::max<int64_t>(1, s.n * s.groups);
  const int64_t size = s.out_size(), panels = std::max<int64_t>(1, ceil_div(size, nr));
  const int64_t least = ceil_div(panels * nr, g.by_taps ? kTapTile : kMaxTile);
  g.tiles = ceil_div(panels, ceil_div(panels, least));
  const int64_t work = images * panels * nr * g.depth * rows;
  int64_t parts = 1;
  const auto largest = [&](int64_t tiles) { return ceil_div(panels, tiles) * nr; };
  const auto keeps = [&](int64_t tiles, int64_t count) {
    return count > 1 && !g.by_taps && largest(tiles) * g.depth <= kKeptFloats;
  };
  if (threads > 1 && work > kLeastShared) {
    const int64_t first = g.tiles,
                  last = std::max(first, std::min(first + threads, panels / kLeastPanels));
    double best = 0;
    for (int64_t count = 1; count == 1 || (count <= 4 * threads && rows / count >= kLeastRows);
         count = count == 1 ? threads : count + threads)
      for (const int64_t tiles : {first, shared_equally(first, last, images * count, threads)}) {
        const int64_t tasks = images * tiles * count;
        const int64_t together =
            keeps(tiles, count) ? std::min(count, ceil_div(tasks, threads)) : 1;
        const double packing = (g.plain ? kPackCost : kGatherCost) / static_cast<double>(together);
        const double busiest = busiest_lane(tasks, threads, [&](int64_t task) {
          const int64_t tile = task / count % tiles, part = task % count;
          const int64_t width = std::min(size, part_begin(panels, tiles, tile + 1) * nr) -
                                part_begin(panels, tiles, tile) * nr;
          const int64_t height = part_begin(rows, count, part + 1) - part_begin(rows, count, part);
          return static_cast<double>(width) * (static_cast<double>(height) + packing);
        });
        // A few more tasks let lanes help each other.
        const double time = tasks < 4 * threads ? 1.02 * busiest : busiest;
        if (best != 0 && time >= best) continue;
        best = time;
        g.tiles = tiles;
        parts = count;
      }
  }
  g.tile = largest(g.tiles);
  g.keeps = keeps(g.tiles, parts);
  return parts;
}

Status prepare(PrepareContext& c) {
  ConvGemm g;
  g.s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  const ConvShape& s = g.s;
  g.table = &gemm_table();
  g.half = &half_table();
  g.images = HalfNumbers(c.out(0).dtype);
  g.depth = s.group_c() * s.kernel_size();
  if (s.transposed) g.piece = kTransposedPiece;
  g.plain = s.kernel_size() == 1 && s.stride == ConvShape::Spatial{1, 1, 1} && s.in == s.out &&
            s.padding == ConvShape::Spatial{0, 0, 0};
  g.by_taps = skips_taps(s);
  const int64_t rows = s.group_o();
  const float* const weight = c.in(1).as<float>();
  const bool packs = c.is_constant(1) && rows > 0 && g.depth > 0;
  const char* order = s.transposed ? "transposed" : g.by_taps ? "taps" : "rows";
  const std::string key = str_cat("conv.", order, g.table->mr, "/", s.groups);
  const PairTable* const pairs = pair_table();
  if (packs && c.precision() == Precision::bf16 && pairs && !s.transposed && !g.by_taps &&
      !c.attrs().flag("exact")) {
    ConvGemm rounded = g;
    rounded.pairs = pairs;
    rounded.table = &pairs->gemm;
    rounded.depth = pairs_of(g.depth);
    rounded.packed = static_cast<const float*>(c.pack(
        1, key + ".pairs", s.o * rounded.depth * 4,
        [rounded, weight](void* to) { pack_pairs(rounded, weight, static_cast<float*>(to)); }));
    if (rounded.packed) g = rounded;
  }
  const int64_t depth = g.depth, parts = choose_tiles(g, c.threads());
  g.first_o = row_parts(rows, g.table->mr, parts);
  if (packs && !g.pairs) {
    if (g.images)
      g.packed = static_cast<const float*>(c.pack(
          1, g.images.key(key), s.o * depth * 4, [g, halves = c.in(1).as<uint16_t>()](void* to) {
            std::vector<float> wide(static_cast<size_t>(g.s.o * g.depth));
            g.images.widen(static_cast<int64_t>(wide.size()), halves, wide.data());
            pack_weight(g, wide.data(), static_cast<float*>(to));
          }));
    else if (c.precision() == Precision::bf16)
      g.rounded = static_cast<const BFloat16*>(
          c.pack(1, key + ".bf16", s.o * depth * 2, [g, weight](void* to) {
            std::vector<float> exact(g.s.o * g.depth);
            pack_weight(g, weight, exact.data());
            auto* const rounded = static_cast<BFloat16*>(to);
            for (size_t i = 0; i < exact.size(); ++i) rounded[i] = BFloat16(exact[i]);
          }));
    else
      g.packed = static_cast<const float*>(c.pack(1, key, s.o * depth * 4, [g, weight](void* to) {
        pack_weight(g, weight, static_cast<float*>(to));
      }));
  }
  g.lanes = tile_lanes(c, s.n * s.groups * g.tiles * g.parts());
  // Panels of a piece, and one row of patches or a pair of them.
  g.widened_at = g.tile * (g.keeps ? depth : std::min(g.piece, depth)) + g.row_floats();
  const int64_t widened =
      g.rounded ? std::min(rows * std::min(g.piece, depth), kPackedRowsFloats) : 0;
  g.sums_at = g.widened_at + (widened + 1) / 2 * 2;
  g.key_at = g.sums_at + (g.images ? g.sum_rows() * g.tile : 0);
  g.slot_bytes = g.key_at * 4 + (g.keeps ? kKeyBytes : 0);
  g.packed_at = tile_workspace(g.lanes, g.slot_bytes);
  if (g.images && packs && !g.packed) return c.fail("has no memory for its weights");
  g.bias_at = g.packed_at;
  const bool pack_each_run = s.transposed && g.packed == nullptr && g.rounded == nullptr;
  c.set_workspace(g.packed_at + (g.images ? s.o * 4 : pack_each_run ? s.o * depth * 4 : 0));
  c.make_state(std::move(g));
  return {};
}

// Panels of the patches [k0, k0 + piece) of a group.
void pack_patches(const ConvGemm& g, const float* x, int64_t k0, int64_t piece,
                  const Pixels& pixels, float* panels, float* row) {
  const ConvShape& s = g.s;
  if (g.pairs) {
    const int64_t step = piece * g.table->nr;
    for (int64_t p = k0; p < k0 + piece; ++p, panels += g.table->nr) {
      const bool is_whole = 2 * p + 1 < s.group_c() * s.kernel_size();
      if (g.plain) {
        const float* const even = x + 2 * p * s.in_size() + pixels.first;
        g.pairs->spread(pixels.columns, even, is_whole ? even + s.in_size() : nullptr, panels,
                        step);
        continue;
      }
      patch_row(s, x, 2 * p, pixels, row);
      if (is_whole) patch_row(s, x, 2 * p + 1, pixels, row + g.tile);
      g.pairs->spread(pixels.columns, row, is_whole ? row + g.tile : nullptr, panels, step);
    }
    return;
  }
  if (g.plain) {
    g.table->pack(piece, pixels.columns, x + k0 * s.in_size() + pixels.first, s.in_size(), 1,
                  panels, piece * g.table->nr);
    return;
  }
  for (int64_t p = 0; p < piece; ++p) {
    patch_row(s, x, g.element(k0 + p), pixels, row);
    g.table->spread(pixels.columns, row, panels + p * g.table->nr, piece * g.table->nr);
  }
}

void pack_half_patches(const ConvGemm& g, const uint16_t* x, int64_t k0, int64_t piece,
                       const Pixels& pixels, float* panels, float* row) {
  const int64_t nr = g.table->nr;
  auto* const halves = reinterpret_cast<uint16_t*>(row + g.tile);
  for (int64_t p = 0; p < piece; ++p) {
    const uint16_t* from = x + (k0 + p) * g.s.in_size() + pixels.first;
    if (!g.plain) {
      patch_row(g.s, x, g.element(k0 + p), pixels, halves);
      from = halves;
    }
    g.images.widen(pixels.columns, from, row);
    g.table->spread(pixels.columns, row, panels + p * nr, piece * nr);
  }
}

void run(const RunContext& c) noexcept {
  const ConvGemm& g = c.state<ConvGemm>();
  const ConvShape& s = g.s;
  const float* x = c.in(0).as<float>();
  const float* weight = c.in(1).as<float>();
  const float* bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const auto* const half_x = c.in(0).as<uint16_t>();
  const auto* const half_residual = c.has(3) ? c.in(3).as<uint16_t>() : nullptr;
  if (g.images && bias) {
    auto* const wide = reinterpret_cast<float*>(c.workspace<char>() + g.bias_at);
    g.images.widen(s.o, c.in(2).as<uint16_t>(), wide);
    bias = wide;
  }
  const float* residual = c.has(3) && !g.images ? c.in(3).as<float>() : nullptr;
  float* y = c.out(0).as<float>();
  auto* const half_y = c.out(0).as<uint16_t>();
  const int mr = g.table->mr, nr = g.table->nr;
  const int64_t rows = s.group_o(), size = s.out_size(), depth = g.depth;
  if (size == 0 || rows == 0) return;
  const float* all_packed = g.packed;
  if (s.transposed && all_packed == nullptr && g.rounded == nullptr) {
    float* to = reinterpret_cast<float*>(c.workspace<char>() + g.packed_at);
    pack_weight(g, weight, to);
    all_packed = to;
  }
  const int64_t tasks = s.n * s.groups * g.tiles * g.parts();
  const auto key_of = [&](float* slot) { return reinterpret_cast<int64_t*>(slot + g.key_at); };
  for (int64_t lane = 0; g.keeps && lane < g.lanes; ++lane)
    *key_of(tile_slot(c, g.lanes, g.slot_bytes, lane)) = -1;
  for_tiles(c, tasks, g.lanes, g.slot_bytes, [&](int64_t task, float* slot) {
    const int64_t* o_range = &g.first_o[task % g.parts()];
    const int64_t index = task / g.parts(), image = index / (s.groups * g.tiles),
                  group = index / g.tiles % s.groups;
    const int64_t first = g.pixel_at(index % g.tiles);
    const Pixels pixels = {first, g.pixel_at(index % g.tiles + 1) - first};
    const int64_t offset = (image * s.o + group * rows) * size + first;
    const int64_t in_offset = (image * s.c + group * s.group_c()) * s.in_size();
    float* const sums = slot + g.sums_at;
    // Skips kernel elements that read only zeros, but keeps the last one if all of them do.
    const auto skip = [&](int64_t k) {
      const int64_t channels = s.group_c();
      while (g.by_taps && k % channels == 0 && k < depth && !meets(s, k / channels, pixels))
        k += channels;
      return k;
    };
    const int64_t first_k = g.by_taps ? std::min(skip(0), depth - s.group_c()) : 0;
    int64_t k0 = first_k;
    do {
      const int64_t next = skip(g.end_of_piece(k0));
      const int64_t piece = g.end_of_piece(k0) - k0;
      const bool last = next >= depth;
      float* const panels = slot + (g.keeps ? k0 * g.tile : 0);
      if (!g.keeps || *key_of(slot) != index) {
        float* const row = slot + g.widened_at - g.row_floats();
        if (g.images)
          pack_half_patches(g, half_x + in_offset, k0, piece, pixels, panels, row);
        else
          pack_patches(g, x + in_offset, k0, piece, pixels, panels, row);
      }
      int64_t end;
      for (int64_t begin = o_range[0]; begin < o_range[1]; begin = end) {
        end = std::min(o_range[1], end_of_rows(begin, rows, piece, mr));
        const int64_t at = offset + begin * size;
        const Epilogue e = {.activation = s.activation,
                            .row_bias = bias ? bias + group * rows + begin : nullptr,
                            .residual = residual ? residual + at : nullptr};
        Sweep sweep = {.rows = end - begin,
                       .columns = pixels.columns,
                       .k = piece,
                       .left = rows - begin,
                       .is_packed = all_packed != nullptr || g.rounded != nullptr,
                       .panels = panels,
                       .panel_step = piece * nr,
                       .near_panels = true,
                       .y = y + at,
                       .y_row = size,
                       .add = k0 > first_k,
                       .epilogue = last && !e.empty() ? &e : nullptr};
        if (g.rounded) {
          float* const widened = slot + g.widened_at;
          g.half->widen((end - begin) * piece,
                        g.rounded + (group * depth + k0) * rows + begin * piece, widened);
          sweep.a = widened;
        } else if (all_packed) {
          sweep.a = all_packed + (group * depth + k0) * rows + begin * piece;
        } else {
          sweep.a = weight + (group * rows + begin) * depth + g.element(k0);
          sweep.a_row = depth;
          sweep.a_col = g.element_step();
        }
        if (!g.images) {
          g.table->sweep(sweep);
          continue;
        }
        sweep.y = sums + (g.sums_blocks() ? 0 : begin - o_range[0]) * g.tile;
        sweep.y_row = g.tile;
        if (half_residual && k0 == first_k) {  // the sum begins with it
          for (int64_t r = 0; r < end - begin; ++r)
            g.images.widen(pixels.columns, half_residual + at + r * size, sweep.y + r * g.tile);
          sweep.add = true;
        }
        g.table->sweep(sweep);
        for (int64_t r = 0; last && r < end - begin; ++r)
          g.images.narrow(pixels.columns, sweep.y + r * g.tile, half_y + at + r * size);
      }
      k0 = next;
    } while (k0 < depth);
    if (g.keeps) *key_of(slot) = index;
  });
}

// One pixel, as in channel weighting by means: a matrix times a vector, limited by reading the
// weights, which are read in place.
bool accepts_pixel(const PrepareContext& c) {
  if (!is_f32_or_packed_half(c) || c.attrs().flag("transposed") || c.out(0).count() == 0)
    return false;
  const ConvShape s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  return s.n <= kGemvRows && s.groups == 1 && s.kernel_size() == 1 && s.in_size() == 1 &&
         s.out_size() == 1 && s.padding == ConvShape::Spatial{0, 0, 0};
}

struct ConvPixel {
  ConvShape s;
  const GemvTable* loops = nullptr;
  const GemmTable* table = nullptr;   // for the epilogue
  const BFloat16* rounded = nullptr;  // the weights for Precision::bf16
  HalfNumbers images = {};            // of x and y
  const float* wide = nullptr;        // the weights of halves
};

Status prepare_pixel(PrepareContext& c) {
  ConvPixel p{conv_shape(c.in(0), c.in(1), c.out(0), c.attrs()), &gemv_table(), &gemm_table()};
  p.images = HalfNumbers(c.out(0).dtype);
  if (p.images) {
    p.wide = p.images.pack_widened(c, p.s.o * p.s.c);
    if (!p.wide) return c.fail("has no memory for its weights");
    c.set_workspace((p.s.n * (p.s.c + 2 * p.s.o) + p.s.o) * 4);
  }
  if (!p.images && c.precision() == Precision::bf16 && c.is_constant(1))
    p.rounded = static_cast<const BFloat16*>(
        c.pack(1, "conv.bf16.pixel", p.s.o * p.s.c * 2,
               [count = p.s.o * p.s.c, weight = c.in(1).as<float>()](void* to) {
                 auto* const rounded = static_cast<BFloat16*>(to);
                 for (int64_t i = 0; i < count; ++i) rounded[i] = BFloat16(weight[i]);
               }));
  if (p.rounded) p.loops = &gemv_table(DType::bf16);
  c.make_state(p);
  return {};
}

void run_pixel(const RunContext& c) noexcept {
  const ConvPixel& p = c.state<ConvPixel>();
  const ConvShape& s = p.s;
  const float* weight = p.images ? p.wide : c.in(1).as<float>();
  const float* x = c.in(0).as<float>();
  const float* bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  float* y = c.out(0).as<float>();
  if (p.images) {
    float* next = c.workspace<float>();
    const auto wide = [&](int input, int64_t count) -> const float* {
      if (!c.has(input)) return nullptr;
      float* const to = next;
      p.images.widen(count, c.in(input).as<uint16_t>(), to);
      next += count;
      return to;
    };
    x = wide(0, s.n * s.c);
    bias = wide(2, s.o);
    residual = wide(3, s.n * s.o);
    y = next;
  }
  const int64_t grain = std::max<int64_t>(64, 32768 / std::max<int64_t>(1, s.c) / 64 * 64);
  c.parallel_for(s.o, grain, [&](int64_t begin, int64_t end) {
    const void* const rows =
        p.rounded ? static_cast<const void*>(p.rounded + begin * s.c) : weight + begin * s.c;
    p.loops->dots(s.n, end - begin, s.c, x, s.c, rows, s.c, y + begin, s.o);
    const Epilogue e = {.activation = s.activation,
                        .column_bias = bias ? bias + begin : nullptr,
                        .residual = residual ? residual + begin : nullptr};
    if (!e.empty()) p.table->finish(s.n, end - begin, e, y + begin, s.o);
    for (int64_t n = 0; p.images && n < s.n; ++n)
      p.images.narrow(end - begin, y + n * s.o + begin, c.out(0).as<uint16_t>() + n * s.o + begin);
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv",
     .name = "pixel",
     .accepts = accepts_pixel,
     .prepare = prepare_pixel,
     .run = run_pixel},
    {.op = "conv", .name = "gemm", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_gemm() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
