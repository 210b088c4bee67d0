// SPDX-License-Identifier: Apache-2.0
// f32 convolutions of one image to few pixels, as in the last layers for small images: the product
// y[pixels, o] = patches[pixels, c kernel] weight[c kernel, o]. Vectors run along output channels,
// because there are too few pixels to fill them. The kernel mostly reads weights, each once.
#include "kernels/conv/conv_few.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/conv/conv_patches.h"
#include "kernels/element.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kMostPixels = 64;
constexpr int64_t kMostPatches = 1 << 20;  // elements; all patches are stored in memory
constexpr int64_t kPanels = 2;             // panels of output channels per task

struct ConvFew {
  ConvShape s;
  const GemmTable* table = nullptr;
  const float* packed = nullptr;  // [pieces of c kernel][panels of o][piece][nr]
  // [kernel][pixels]: position in a channel of x, or -1 in the padding.
  std::vector<int32_t> places;
  std::vector<int> blocks;  // pixels of each packed block
  int64_t depth = 0, panels = 0, pixels = 0;
  int64_t lanes = 1, slot_bytes = 0;
  int64_t patches_at = 0, weights_at = 0;  // in the workspace, in bytes
};

void pack_weight(const ConvFew& f, const float* weight, float* to) {
  const int64_t nr = f.table->nr;
  for (int64_t k = 0; k < f.depth; k += kDepthPiece) {
    const int64_t piece = std::min(kDepthPiece, f.depth - k);
    f.table->pack(piece, f.s.o, weight + k, 1, f.depth, to + k * f.panels * nr, piece * nr);
  }
}

// Positions of the pixels' patches in a channel of x, for each kernel element.
std::vector<int32_t> places_of(const ConvShape& s) {
  std::vector<int32_t> places;
  for (int64_t tap = 0; tap < s.kernel_size(); ++tap)
    for (int64_t pixel = 0; pixel < s.out_size(); ++pixel) {
      const ConvShape::Spatial k = {tap / (s.kernel[1] * s.kernel[2]),
                                    tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
      const ConvShape::Spatial at = {pixel / (s.out[1] * s.out[2]), pixel / s.out[2] % s.out[1],
                                     pixel % s.out[2]};
      int64_t place = 0;
      for (size_t d = 0; d < 3 && place >= 0; ++d) {
        const int64_t in = at[d] * s.stride[d] + k[d] * s.dilation[d] - s.padding[d];
        place = in < 0 || in >= s.in[d] ? -1 : place * s.in[d] + in;
      }
      places.push_back(static_cast<int32_t>(place));
    }
  return places;
}

Status prepare(PrepareContext& c) {
  ConvFew f;
  f.s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  f.table = &gemm_table();
  const ConvShape& s = f.s;
  f.depth = s.c * s.kernel_size();
  f.pixels = s.out_size();
  f.panels = ceil_div(s.o, f.table->nr);
  f.places = places_of(s);
  for (int64_t i = 0; i < f.pixels; i += f.blocks.back())
    f.blocks.push_back(block_rows(f.pixels - i, f.table->mr));
  const int64_t weight_bytes = f.panels * f.table->nr * f.depth * 4;
  const float* weight = c.in(1).as<float>();
  f.packed = static_cast<const float*>(
      c.pack(1, str_cat("conv.few", f.table->nr), weight_bytes,
             [f, weight](void* to) { pack_weight(f, weight, static_cast<float*>(to)); }));
  f.lanes = tile_lanes(c, ceil_div(f.panels, kPanels));
  f.slot_bytes = f.pixels * kPanels * f.table->nr * 4;
  f.patches_at = tile_workspace(f.lanes, f.slot_bytes);
  f.weights_at = f.patches_at + f.depth * f.pixels * 4;
  c.set_workspace(f.weights_at + (f.packed == nullptr ? weight_bytes : 0));
  c.make_state(std::move(f));
  return {};
}

// [pieces of c kernel][blocks of pixels][piece][pixels]
void gather_patches(const RunContext& c, const ConvFew& f, const float* x, float* patches) {
  const int64_t taps = f.s.kernel_size();
  c.parallel_for(f.s.c, grain_of(taps * f.pixels), [&](int64_t begin, int64_t end) {
    float row[kMostPixels + PaddedImages::kSlack];
    std::optional<PaddedImages> padded;
    if (PaddedImages::serves(f.s, 1)) padded.emplace(f.s, 1);
    for (int64_t p = begin * taps; p < end * taps; ++p) {
      const float* const image = x + p / taps * f.s.in_size();
      const int32_t* const places = f.places.data() + p % taps * f.pixels;
      if (padded)
        padded->row(x, p, row);
      else
        for (int64_t i = 0; i < f.pixels; ++i) row[i] = places[i] < 0 ? 0 : image[places[i]];
      const int64_t k = p / kDepthPiece * kDepthPiece, piece = std::min(kDepthPiece, f.depth - k);
      const float* from = row;
      float* to = patches + k * f.pixels;
      for (const int count : f.blocks) {
        std::copy_n(from, count, to + (p - k) * count);
        from += count;
        to += count * piece;
      }
    }
  });
}

void run(const RunContext& c) noexcept {
  const ConvFew& f = c.state<ConvFew>();
  const ConvShape& s = f.s;
  auto* const patches = reinterpret_cast<float*>(c.workspace<char>() + f.patches_at);
  gather_patches(c, f, c.in(0).as<float>(), patches);
  const float* packed = f.packed;
  if (packed == nullptr) {
    auto* const to = reinterpret_cast<float*>(c.workspace<char>() + f.weights_at);
    pack_weight(f, c.in(1).as<float>(), to);
    packed = to;
  }
  const float* bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  float* y = c.out(0).as<float>();
  const int64_t nr = f.table->nr, width = kPanels * nr;
  for_tiles(c, ceil_div(f.panels, kPanels), f.lanes, f.slot_bytes, [&](int64_t task, float* sums) {
    const int64_t o = task * width, columns = std::min(width, s.o - o);
    for (int64_t k = 0; k < f.depth; k += kDepthPiece) {
      const int64_t piece = std::min(kDepthPiece, f.depth - k);
      const int64_t end = f.depth * f.panels * nr, left = f.depth - k - piece;
      const int64_t next = left > 0 ? (k + piece) * f.panels * nr + o * std::min(kDepthPiece, left)
                                    : (o + width) * std::min(kDepthPiece, f.depth);
      f.table->sweep({.rows = f.pixels,
                      .columns = columns,
                      .k = piece,
                      .left = f.pixels,
                      .a = patches + k * f.pixels,
                      .is_packed = true,
                      .panels = packed + k * f.panels * nr + o * piece,
                      .panel_step = piece * nr,
                      .y = sums,
                      .y_row = width,
                      .add = k > 0,
                      .next = reinterpret_cast<const char*>(packed + next),
                      .next_rows = next < end ? 1 : 0,
                      .next_bytes = std::min(piece * nr, end - next) * 4});
    }
    float* const to = y + o * f.pixels;
    for (int64_t i = 0; i < columns; ++i)
      for (int64_t p = 0; p < f.pixels; ++p) to[i * f.pixels + p] = sums[p * width + i];
    const Epilogue e = {.activation = s.activation,
                        .row_bias = bias ? bias + o : nullptr,
                        .residual = residual ? residual + o * f.pixels : nullptr};
    if (!e.empty()) f.table->finish(columns, f.pixels, e, to, f.pixels);
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv",
     .name = "few_pixels",
     .accepts = accepts_few_pixels,
     .prepare = prepare,
     .run = run},
};

}  // namespace

bool accepts_few_pixels(const PrepareContext& c) {
  if (c.out(0).dtype != f32 || c.attrs().flag("transposed") || !c.is_constant(1) ||
      c.low_memory() || c.precision() == Precision::bf16)
    return false;
  const ConvShape s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  return s.n == 1 && s.groups == 1 && s.c > 0 && s.o >= gemm_table().nr && s.kernel_size() > 1 &&
         s.out_size() > 1 && s.out_size() <= kMostPixels && s.in_size() <= kMostPatches &&
         s.c * s.kernel_size() * s.out_size() <= kMostPatches;
}

double cost_of_few_pixels(const PrepareContext& c, int64_t lanes) {
  const ConvShape s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  const int64_t depth = s.c * s.kernel_size(), vectors = ceil_div(s.o, lanes);
  const int64_t mr = gemm_table().mr;  // a partial block of pixels takes about as long as a whole
  return static_cast<double>(depth * vectors * ceil_div(s.out_size(), mr) * mr) +
         cost_of_reading(static_cast<double>(depth * vectors * lanes * 4));
}

std::span<const KernelDef> conv_few() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
