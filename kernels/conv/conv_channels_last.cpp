// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of channels-last images. Vectors run along the channels, so they are full
// for images of any size. Pixels outside the image are pointers to zeros, so nothing is copied.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/conv_channels_last.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/cache_control.h"
#include "kernels/conv/channels_tile.h"
#include "kernels/saves_code.h"
#include "kernels/simd/rows-inl.h"
// clang-format on
#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace hg::kernels {
namespace HWY_NAMESPACE {
namespace {

// Reads every element of x that kColumns neighbors need once.
template <int kKernel, int kStride, int kColumns, class Load>
HWY_INLINE void add_square(const ChannelsTile& t, int64_t c, const Load& load,
                           V (&sums)[kColumns]) {
  const float* weight = t.weight + c;
  const float* const* x = t.x;
#pragma GCC unroll 1
  for (int ky = 0; ky < kKernel; ++ky, x += t.x_row) {
    V factor[kKernel];
#pragma GCC unroll 7
    for (int kx = 0; kx < kKernel; ++kx, weight += t.channels) factor[kx] = load(weight);
#pragma GCC unroll 19
    for (int column = 0; column < (kColumns - 1) * kStride + kKernel; ++column) {
      const V value = load(x[column] + c);
#pragma GCC unroll 7
      for (int kx = 0; kx < kKernel; ++kx) {
        const int j = (column - kx) / kStride;
        if (column >= kx && j < kColumns && column - kx == j * kStride)
          sums[j] = hn::MulAdd(factor[kx], value, sums[j]);
      }
    }
  }
}

template <int kColumns, class Load>
HWY_INLINE void add_any(const ChannelsTile& t, int64_t c, const Load& load, V (&sums)[kColumns]) {
  const float* weight = t.weight + c;
  for (int64_t ky = 0; ky < t.kernel_y; ++ky)
    for (int64_t kx = 0; kx < t.kernel_x; ++kx, weight += t.channels) {
      const V factor = load(weight);
      const float* const* x = t.x + ky * t.x_row + kx * t.dilation;
#pragma GCC unroll 7
      for (int j = 0; j < kColumns; ++j)
        sums[j] = hn::MulAdd(factor, load(x[j * t.stride] + c), sums[j]);
    }
}

// One vector of channels, or its first `valid` elements. kKernel 0: any.
template <int kKernel, int kStride, int kColumns, bool kWhole>
HWY_INLINE void one_vector(const ChannelsTile& t, int64_t c, int valid) {
  const D d;
  const auto load = [d, valid](const float* from) HWY_ATTR {
    return kWhole ? hn::LoadU(d, from) : load_part(d, from, valid);
  };
  V sums[kColumns];
  const V bias = t.bias != nullptr ? load(t.bias + c) : hn::Zero(d);
#pragma GCC unroll 7
  for (int j = 0; j < kColumns; ++j) sums[j] = bias;
  if constexpr (kKernel == 0)
    add_any<kColumns>(t, c, load, sums);
  else
    add_square<kKernel, kStride, kColumns>(t, c, load, sums);
  if (t.residual != nullptr) {
#pragma GCC unroll 7
    for (int j = 0; j < kColumns; ++j)
      sums[j] = hn::Add(sums[j], load(t.residual + j * t.channels + c));
  }
  if (t.activation != Activation::none) {  // NaN stays NaN
    const V low = hn::Zero(d), high = hn::Set(d, 6.0f);
    const bool has_high = t.activation == Activation::relu6;
#pragma GCC unroll 7
    for (int j = 0; j < kColumns; ++j) {
      const V x = hn::IfThenElse(hn::Lt(sums[j], low), low, sums[j]);
      sums[j] = has_high ? hn::IfThenElse(hn::Gt(x, high), high, x) : x;
    }
  }
#pragma GCC unroll 7
  for (int j = 0; j < kColumns; ++j) {
    float* to = t.y + j * t.channels + c;
    if constexpr (kWhole)
      hn::StoreU(sums[j], d, to);
    else
      store_part(d, sums[j], valid, to);
  }
}

// Prefetches the additional pixels that the tile below reads. They may be in memory, or in the
// cache of another processor.
template <int kColumns>
HWY_INLINE void expect(const ChannelsTile& t) {
  constexpr int64_t kLine = 16;  // floats
  for (int64_t row = 0; row < t.ahead_rows; ++row) {
    const float* const* x = t.ahead + row * t.ahead_row;
    for (int64_t j = 0; j <= (kColumns - 1) * t.stride; ++j)
      for (int64_t c = t.begin; c < t.end; c += kLine) hwy::Prefetch(x[j] + c);
  }
}

template <int kKernel, int kStride, int kColumns>
HWY_NOINLINE void last_vector(const ChannelsTile& t, int64_t c) {
  one_vector<kKernel, kStride, kColumns, false>(t, c, static_cast<int>(t.end - c));
}

template <int kKernel, int kStride, int kColumns>
void tile(const ChannelsTile& t) {
  expect<kColumns>(t);
  int64_t c = t.begin;
  for (; c + kLanes <= t.end; c += kLanes)
    one_vector<kKernel, kStride, kColumns, true>(t, c, kLanes);
  if (kLanes == 1 || c == t.end) return;
  last_vector<kSavesCode ? 0 : kKernel, kSavesCode ? 1 : kStride, kColumns>(t, c);
}

template <int kKernel, int kStride>
constexpr ChannelsTable::Tiles kTiles = {tile<kKernel, kStride, kTileColumns[0]>,
                                         tile<kKernel, kStride, kTileColumns[1]>,
                                         tile<kKernel, kStride, kTileColumns[2]>};

}  // namespace

constexpr ChannelsTable kTable = {
    kTiles<0, 1>,
    {{kTiles<3, 1>, kTiles<3, 2>}, {kTiles<5, 1>, kTiles<5, 2>}, {kTiles<7, 1>, kTiles<7, 2>}}};

}  // namespace HWY_NAMESPACE
}  // namespace hg::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/arithmetic.h"
#include "kernels/blocking.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kTileFloats = 32768;  // of y in the rows that one task computes, approximately
constexpr int64_t kMostPixels = 2048;   // pixel pointers that a task keeps
constexpr int64_t kLeastShared = 8192;  // elements of an image of y that are worth sharing

struct ChannelsLast {
  ConvShape s;
  const GemmTable* gemm = nullptr;
  ChannelsTable::Tile tile = nullptr;
  int64_t width = 1;              // pixels of a tile
  const float* packed = nullptr;  // [kernel...][c]
  int64_t columns = 0;            // of the padded x
  int64_t tile_y = 1, tiles_y = 1, in_rows = 1;
  int64_t block = 1;              // channels whose rows of x fit the first-level cache
  int64_t part_c = 1, parts = 1;  // channels of a task
  int64_t lanes = 1, slot_bytes = 0, packed_at = 0;
};

bool accepts(const PrepareContext& c) { return c.out(0).dtype == f32 && c.out(0).count() > 0; }

// weight [c, kernel] as [kernel, c]
void pack_weight(int64_t channels, int64_t taps, const float* weight, float* to) {
  for (int64_t t = 0; t < taps; ++t)
    for (int64_t c = 0; c < channels; ++c) *to++ = weight[c * taps + t];
}

Status prepare(PrepareContext& c) {
  ChannelsLast w;
  w.s = channels_last_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  const ConvShape& s = w.s;
  w.gemm = &gemm_table();
  // Prefers the fewest pixels that are computed twice, then wide tiles.
  size_t choice = kTileColumns.size() - 1;
  const auto computed = [&](size_t i) {
    return (s.out[2] + kTileColumns[i] - 1) / kTileColumns[i] * kTileColumns[i];
  };
  for (size_t i = choice; i-- > 0;)
    if (kTileColumns[i] <= s.out[2] &&
        (kTileColumns[choice] == 1 || computed(i) <= computed(choice)))
      choice = i;
  w.width = kTileColumns[choice];
  const ChannelsTable& table = *HG_SIMD_CHOOSE(kTable);
  const int64_t k = s.kernel[1], step = s.stride[1];
  const bool is_square = k == s.kernel[2] && (k == 3 || k == 5 || k == 7) && step <= 2 &&
                         s.stride[2] == step && s.dilation == ConvShape::Spatial{1, 1, 1};
  w.tile = is_square ? table.square[(k - 3) / 2][step - 1][choice] : table.any[choice];
  const int64_t reach_y = (k - 1) * s.dilation[1];
  w.columns = (s.out[2] - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1;
  int64_t fit = std::min(kTileFloats / (s.out[2] * s.c),
                         (kMostPixels / w.columns - reach_y - 1) / s.stride[1] + 1);
  // Several threads share rows, and also channels, because the rows of small images do not divide
  // evenly.
  const int64_t threads = s.out_size() * s.c > kLeastShared ? c.threads() : 1;
  if (threads > 1) fit = std::min(fit, s.out[1] / (4 * threads));
  w.tile_y = std::clamp<int64_t>(fit, 1, s.out[1]);
  w.tiles_y = (s.out[1] + w.tile_y - 1) / w.tile_y;
  w.tile_y = (s.out[1] + w.tiles_y - 1) / w.tiles_y;
  w.part_c = ((s.c + threads - 1) / threads + 15) / 16 * 16;
  w.parts = (s.c + w.part_c - 1) / w.part_c;
  w.in_rows = (w.tile_y - 1) * s.stride[1] + reach_y + 1;
  w.block = std::max<int64_t>(16, kFirstCacheFloats / (k * w.columns) / 16 * 16);
  w.lanes = tile_lanes(c, s.n * w.tiles_y * w.parts);
  w.slot_bytes = w.in_rows * w.columns * static_cast<int64_t>(sizeof(float*)) + s.c * 4;
  w.packed_at = tile_workspace(w.lanes, w.slot_bytes);
  const int64_t bytes = s.kernel_size() * s.c * 4;
  if (c.is_constant(1))
    w.packed = static_cast<const float*>(
        c.pack(1, "conv.channels_last", bytes,
               [channels = s.c, taps = s.kernel_size(), weight = c.in(1).as<float>()](void* to) {
                 pack_weight(channels, taps, weight, static_cast<float*>(to));
               }));
  c.set_workspace(w.packed_at + (w.packed == nullptr ? bytes : 0));
  c.make_state(w);
  return {};
}

// Pointers to the pixels of the padded rows of x from `first` on.
void find_pixels(const ChannelsLast& w, const float* x, int64_t first, const float* zeros,
                 const float** to) {
  const ConvShape& s = w.s;
  for (int64_t row = first - s.padding[1]; row < first - s.padding[1] + w.in_rows; ++row)
    for (int64_t at = -s.padding[2]; at < w.columns - s.padding[2]; ++at) {
      const bool inside = row >= 0 && row < s.in[1] && at >= 0 && at < s.in[2];
      *to++ = inside ? x + (row * s.in[2] + at) * s.c : zeros;
    }
}

void run(const RunContext& c) noexcept {
  const ChannelsLast& w = c.state<ChannelsLast>();
  const ConvShape& s = w.s;
  const float* weight = w.packed;
  if (weight == nullptr) {
    float* to = reinterpret_cast<float*>(c.workspace<char>() + w.packed_at);
    pack_weight(s.c, s.kernel_size(), c.in(1).as<float>(), to);
    weight = to;
  }
  const float* bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  const int64_t tasks = s.n * w.tiles_y * w.parts;
  for_tiles(c, tasks, w.lanes, w.slot_bytes, [&](int64_t task, float* slot) {
    const int64_t first_c = task % w.parts * w.part_c, end_c = std::min(s.c, first_c + w.part_c);
    const int64_t index = task / w.parts, image = index / w.tiles_y,
                  first = part_begin(s.out[1], w.tiles_y, index % w.tiles_y);
    const int64_t rows = part_begin(s.out[1], w.tiles_y, index % w.tiles_y + 1) - first;
    // The rows that only the next row of tiles reads.
    const int64_t all_reach = (s.kernel[1] - 1) * s.dilation[1] + 1;
    const int64_t ahead = std::min(s.stride[1], all_reach);
    const int64_t reach = all_reach + s.stride[1] - ahead;
    const auto** pixels = reinterpret_cast<const float**>(slot);
    auto* zeros = reinterpret_cast<float*>(pixels + w.in_rows * w.columns);
    std::fill(zeros + first_c, zeros + end_c, 0.0f);
    find_pixels(w, c.in(0).as<float>() + image * s.in_size() * s.c, first * s.stride[1], zeros,
                pixels);
    ChannelsTile tile = {.x_row = w.columns * s.dilation[1],
                         .kernel_y = s.kernel[1],
                         .kernel_x = s.kernel[2],
                         .stride = s.stride[2],
                         .dilation = s.dilation[2],
                         .ahead_row = w.columns,
                         .channels = s.c,
                         .weight = weight,
                         .bias = bias,
                         .activation = is_clamp(s.activation) ? s.activation : Activation::none};
    for (tile.begin = first_c; tile.begin < end_c; tile.begin = tile.end) {
      tile.end = std::min(end_c, tile.begin + w.block);
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t at = ((image * s.out[1] + first + row) * s.out[2]) * s.c;
        float* const y = c.out(0).as<float>() + at;
        for (int64_t next = 0; next < s.out[2]; next += w.width) {
          const int64_t j = std::min(next, s.out[2] - w.width);
          tile.x = pixels + row * s.stride[1] * w.columns + j * s.stride[2];
          tile.residual = residual ? residual + at + j * s.c : nullptr;
          tile.y = y + j * s.c;
          tile.ahead_rows = row + 1 < rows ? ahead : 0;
          tile.ahead = tile.x + reach * w.columns;
          w.tile(tile);
        }
        if (!is_clamp(s.activation))
          w.gemm->finish(s.out[2], tile.end - tile.begin, {.activation = s.activation},
                         y + tile.begin, s.c);
      }
    }
  });
}

// Any dtype: one pixel of y at a time.
Status plain_prepare(PrepareContext& c) {
  c.make_state(channels_last_shape(c.in(0), c.in(1), c.out(0), c.attrs()));
  return {};
}

template <class T>
void plain(const RunContext& c, const ConvShape& s) {
  const T *x = c.in(0).as<T>(), *weight = c.in(1).as<T>();
  const T* bias = c.has(2) ? c.in(2).as<T>() : nullptr;
  const T* residual = c.has(3) ? c.in(3).as<T>() : nullptr;
  T* y = c.out(0).as<T>();
  c.parallel_for(s.n * s.out_size(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * s.c; at < end * s.c; ++at) {
      const int64_t channel = at % s.c, pixel = at / s.c, image = pixel / s.out_size();
      const int64_t row = pixel / s.out[2] % s.out[1] * s.stride[1] - s.padding[1];
      const int64_t column = pixel % s.out[2] * s.stride[2] - s.padding[2];
      SumOf<T> sum = bias ? load(bias[channel]) : SumOf<T>(0);
      for (int64_t tap = 0; tap < s.kernel_size(); ++tap) {
        const int64_t i = row + tap / s.kernel[2] * s.dilation[1];
        const int64_t j = column + tap % s.kernel[2] * s.dilation[2];
        if (i >= 0 && i < s.in[1] && j >= 0 && j < s.in[2])
          sum += load(x[((image * s.in[1] + i) * s.in[2] + j) * s.c + channel]) *
                 load(weight[channel * s.kernel_size() + tap]);
      }
      if (residual) sum += load(residual[at]);
      if constexpr (!std::is_integral_v<T>) sum = activate(s.activation, sum);
      y[at] = store<T>(sum);
    }
  });
}

void plain_run(const RunContext& c) noexcept {
  for_number(c.out(0).dtype, [&]<class T>() { plain<T>(c, c.state<ConvShape>()); });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv_channels_last",
     .name = "tiles",
     .accepts = accepts,
     .prepare = prepare,
     .run = run},
    {.op = "conv_channels_last",
     .name = "plain",
     .prepare = plain_prepare,
     .run = plain_run,
     .is_fallback = true},
};

}  // namespace

std::span<const KernelDef> conv_channels_last() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
#endif  // HWY_ONCE
