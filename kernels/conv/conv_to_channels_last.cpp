// SPDX-License-Identifier: Apache-2.0
// Convolutions of images with few channels and a channels-last result: the start of channels-last
// regions. A few rows of x are copied with zero padding. A block of neighboring pixels times two
// vectors of channels stays in registers during the kernel loop.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/conv_to_channels_last.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/conv/entry_tile.h"
#include "kernels/simd/rows-inl.h"
// clang-format on
#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace hg::kernels {
namespace HWY_NAMESPACE {
namespace {

constexpr int kPixels = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 12 : 6;
constexpr int kPanel = 2 * kLanes;

// kStep: distance of the pixels that neighbors read; 0: any.
template <int kCount, int kStep>
void tile(const EntryTile& t) {
  const D d;
  const int64_t step = kStep > 0 ? kStep : t.step;
  const float* panel = t.panels;
  for (int64_t j = 0; j < t.channels; j += kPanel) {
    V sums[kCount][2];
#pragma GCC unroll 12
    for (int i = 0; i < kCount; ++i) sums[i][0] = sums[i][1] = hn::Zero(d);
    for (int64_t p = 0; p < t.depth; ++p, panel += kPanel) {
      const V b0 = hn::LoadU(d, panel), b1 = hn::LoadU(d, panel + kLanes);
      const float* x = t.x + t.offset[p];
#pragma GCC unroll 12
      for (int i = 0; i < kCount; ++i) {
        const V factor = hn::Set(d, x[i * step]);
        sums[i][0] = hn::MulAdd(factor, b0, sums[i][0]);
        sums[i][1] = hn::MulAdd(factor, b1, sums[i][1]);
      }
    }
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      const int64_t at = j + v * kLanes;
      if (at >= t.channels) break;
      const int valid = static_cast<int>(std::min<int64_t>(kLanes, t.channels - at));
      const V bias = t.bias != nullptr ? load_part(d, t.bias + at, valid) : hn::Zero(d);
      const V low = hn::Zero(d), high = hn::Set(d, 6.0f);
#pragma GCC unroll 12
      for (int i = 0; i < kCount; ++i) {
        V y = hn::Add(sums[i][v], bias);
        if (t.activation != Activation::none) y = hn::IfThenElse(hn::Lt(y, low), low, y);
        if (t.activation == Activation::relu6) y = hn::IfThenElse(hn::Gt(y, high), high, y);
        store_part(d, y, valid, t.y + i * t.channels + at);
      }
    }
  }
}

}  // namespace

constexpr EntryTable kTable = {
    kPixels, kPanel, {tile<kPixels, 0>, tile<kPixels, 1>, tile<kPixels, 2>}, tile<1, 0>};

}  // namespace HWY_NAMESPACE
}  // namespace hg::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/arithmetic.h"
#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kLeastTiles = 4;  // per thread

struct Entry {
  ConvShape s;
  const EntryTable* table = nullptr;
  const GemmTable* gemm = nullptr;
  const float* packed = nullptr;     // [panels][c, kernel][panel]
  int64_t columns = 0;               // of the padded x
  int64_t tiles_y = 1, in_rows = 1;  // rows of x that a tile meets, at most
  std::vector<int64_t> offset;       // of the elements of a kernel in the copy [c][rows][columns]
  int64_t lanes = 1, slot_bytes = 0, packed_at = 0;

  int64_t depth() const { return s.c * s.kernel_size(); }
  int64_t packed_floats() const { return ceil_div(s.o, table->panel) * table->panel * depth(); }
};

bool is_of_one_dtype(const PrepareContext& c) {
  return c.in(0).dtype == c.out(0).dtype && c.in(1).dtype == c.out(0).dtype &&
         (!c.has(2) || c.in(2).dtype == c.out(0).dtype);
}
bool accepts(const PrepareContext& c) {
  return c.out(0).dtype == f32 && is_of_one_dtype(c) && c.out(0).count() > 0;
}

// weight [o, depth] as panels; missing elements of the last one are 0.
void pack_weight(int64_t o, int64_t depth, int64_t panel, const float* weight, float* to) {
  for (int64_t first = 0; first < o; first += panel)
    for (int64_t p = 0; p < depth; ++p)
      for (int64_t j = first; j < first + panel; ++j) *to++ = j < o ? weight[j * depth + p] : 0.0f;
}

Status prepare(PrepareContext& c) {
  Entry e;
  e.s = to_channels_last_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  const ConvShape& s = e.s;
  e.table = HG_SIMD_CHOOSE(kTable);
  e.gemm = &gemm_table();
  const int64_t reach_y = (s.kernel[1] - 1) * s.dilation[1];
  const int64_t reach_x = (s.kernel[2] - 1) * s.dilation[2];
  e.columns = (s.out[2] - 1) * s.stride[2] + reach_x + 1;
  const int64_t fit =
      (kFirstCacheFloats / std::max<int64_t>(1, s.c * e.columns) - reach_y - 1) / s.stride[1] + 1;
  const int64_t most = ceil_div(s.out[1], std::min<int64_t>(s.out[1], c.threads() * kLeastTiles));
  e.tiles_y = ceil_div(s.out[1], std::clamp<int64_t>(fit, 1, most));
  e.tiles_y = shared_equally(e.tiles_y, s.out[1], s.n, c.threads());
  e.in_rows = (ceil_div(s.out[1], e.tiles_y) - 1) * s.stride[1] + reach_y + 1;
  for (int64_t channel = 0; channel < s.c; ++channel)
    for (int64_t ky = 0; ky < s.kernel[1]; ++ky)
      for (int64_t kx = 0; kx < s.kernel[2]; ++kx)
        e.offset.push_back((channel * e.in_rows + ky * s.dilation[1]) * e.columns +
                           kx * s.dilation[2]);
  e.lanes = tile_lanes(c, s.n * e.tiles_y);
  e.slot_bytes = s.c * e.in_rows * e.columns * 4;
  e.packed_at = tile_workspace(e.lanes, e.slot_bytes);
  if (c.is_constant(1))
    e.packed = static_cast<const float*>(
        c.pack(1, str_cat("conv.to_channels_last", e.table->panel), e.packed_floats() * 4,
               [o = s.o, depth = e.depth(), panel = e.table->panel, weight = c.in(1).as<float>()](
                   void* to) { pack_weight(o, depth, panel, weight, static_cast<float*>(to)); }));
  c.set_workspace(e.packed_at + (e.packed == nullptr ? e.packed_floats() * 4 : 0));
  c.make_state(std::move(e));
  return {};
}

// The rows of the padded x from `first` on.
void copy_image(const Entry& e, const float* x, int64_t first, int64_t rows, float* to) {
  const ConvShape& s = e.s;
  const int64_t left = std::min(s.padding[2], e.columns);
  const int64_t width = std::clamp<int64_t>(e.columns - left, 0, s.in[2]);
  for (int64_t channel = 0; channel < s.c; ++channel, x += s.in_size())
    for (int64_t row = 0; row < e.in_rows; ++row, to += e.columns) {
      const int64_t at = first + row - s.padding[1];
      if (row >= rows) continue;
      if (at < 0 || at >= s.in[1]) {
        std::fill_n(to, e.columns, 0.0f);
        continue;
      }
      std::fill_n(to, left, 0.0f);
      std::copy_n(x + at * s.in[2], width, to + left);
      std::fill(to + left + width, to + e.columns, 0.0f);
    }
}

void run(const RunContext& c) noexcept {
  const Entry& e = c.state<Entry>();
  const ConvShape& s = e.s;
  const float* packed = e.packed;
  if (packed == nullptr) {
    float* to = reinterpret_cast<float*>(c.workspace<char>() + e.packed_at);
    pack_weight(s.o, e.depth(), e.table->panel, c.in(1).as<float>(), to);
    packed = to;
  }
  for_tiles(c, s.n * e.tiles_y, e.lanes, e.slot_bytes, [&](int64_t task, float* slot) {
    const int64_t image = task / e.tiles_y, part = task % e.tiles_y;
    const int64_t first = part_begin(s.out[1], e.tiles_y, part);
    const int64_t rows = part_begin(s.out[1], e.tiles_y, part + 1) - first;
    copy_image(e, c.in(0).as<float>() + image * s.c * s.in_size(), first * s.stride[1],
               e.in_rows - (ceil_div(s.out[1], e.tiles_y) - rows) * s.stride[1], slot);
    EntryTile tile = {.offset = e.offset.data(),
                      .depth = e.depth(),
                      .step = s.stride[2],
                      .panels = packed,
                      .channels = s.o,
                      .bias = c.has(2) ? c.in(2).as<float>() : nullptr,
                      .activation = is_clamp(s.activation) ? s.activation : Activation::none};
    const int64_t pixels = e.table->pixels;
    const auto whole = e.table->whole[s.stride[2] <= 2 ? s.stride[2] : 0];
    for (int64_t row = 0; row < rows; ++row) {
      const float* x = slot + row * s.stride[1] * e.columns;
      float* y = c.out(0).as<float>() + ((image * s.out[1] + first + row) * s.out[2]) * s.o;
      // The last block is whole if another block precedes it.
      const bool has_whole = s.out[2] >= pixels;
      for (int64_t next = 0; next < s.out[2]; next += has_whole ? pixels : 1) {
        const int64_t j = has_whole ? std::min(next, s.out[2] - pixels) : next;
        tile.x = x + j * s.stride[2];
        tile.y = y + j * s.o;
        (has_whole ? whole : e.table->one)(tile);
      }
      if (!is_clamp(s.activation))
        e.gemm->finish(s.out[2], s.o, {.activation = s.activation}, y, s.o);
    }
  });
}

// Any dtype: one element of y at a time. Kernel "rows" computes results of mixed operands, unless
// they are empty.
Status plain_prepare(PrepareContext& c) {
  if (!is_of_one_dtype(c) && c.out(0).count() > 0)
    return c.fail("takes operands of the result's dtype");
  c.make_state(to_channels_last_shape(c.in(0), c.in(1), c.out(0), c.attrs()));
  return {};
}

template <class T>
void plain(const RunContext& c, const ConvShape& s) {
  const T *x = c.in(0).as<T>(), *weight = c.in(1).as<T>();
  const T* bias = c.has(2) ? c.in(2).as<T>() : nullptr;
  T* y = c.out(0).as<T>();
  c.parallel_for(s.n * s.out_size(), 16, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * s.o; at < end * s.o; ++at) {
      const int64_t o = at % s.o, pixel = at / s.o, image = pixel / s.out_size();
      const int64_t row = pixel / s.out[2] % s.out[1] * s.stride[1] - s.padding[1];
      const int64_t column = pixel % s.out[2] * s.stride[2] - s.padding[2];
      SumOf<T> sum = bias ? load(bias[o]) : SumOf<T>(0);
      for (int64_t k = 0; k < s.c * s.kernel_size(); ++k) {
        const int64_t channel = k / s.kernel_size(), tap = k % s.kernel_size();
        const int64_t i = row + tap / s.kernel[2] * s.dilation[1];
        const int64_t j = column + tap % s.kernel[2] * s.dilation[2];
        if (i >= 0 && i < s.in[1] && j >= 0 && j < s.in[2])
          sum += load(x[((image * s.c + channel) * s.in[1] + i) * s.in[2] + j]) *
                 load(weight[o * s.c * s.kernel_size() + k]);
      }
      if constexpr (!std::is_integral_v<T>) sum = activate(s.activation, sum);
      y[at] = store<T>(sum);
    }
  });
}

void plain_run(const RunContext& c) noexcept {
  for_number(c.out(0).dtype, [&]<class T>() { plain<T>(c, c.state<ConvShape>()); });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv_to_channels_last",
     .name = "tiles",
     .accepts = accepts,
     .prepare = prepare,
     .run = run},
    {.op = "conv_to_channels_last",
     .name = "plain",
     .prepare = plain_prepare,
     .run = plain_run,
     .is_fallback = true},
};

}  // namespace

std::span<const KernelDef> conv_to_channels_last() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
#endif  // HWY_ONCE
