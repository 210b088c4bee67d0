// SPDX-License-Identifier: Apache-2.0
// Max pooling and its gradient.
#include <limits>

#include "kernels/pool/pool_shape.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

Status max_pool_prepare(PrepareContext& c) {
  PoolState s = sizes_of(c.in(0), c.out(0));
  read_windows(s, c.attrs(), c.in(0).rank() - 2, true);
  if (c.output_count() == 1) join_rows(s);
  reserve_wide_planes(c, s);
  c.make_state(std::move(s));
  return {};
}
Status adaptive_prepare(PrepareContext& c) {
  PoolState s = adaptive_windows(c.in(0), c.out(0));
  reserve_wide_planes(c, s);
  c.make_state(std::move(s));
  return {};
}

template <class T>
bool beats(T v, T best) {
  if constexpr (std::is_floating_point_v<T>) return (v > best) | (v != v);
  return v > best;
}
template <class T>
T lowest() {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::lowest();
}

// y, or indices, may be null.
template <class T>
void max_plane(const PoolState& s, const T* x, T* y, int64_t* indices) {
  const Axis &ad = s.axes[0], &ah = s.axes[1], &aw = s.axes[2];
  for_windows(s, [&](int64_t o, const Window& wd, const Window& wh, const Window& ww) {
    T best = lowest<T>();
    int64_t index = (wd.begin * ah.in + wh.begin) * aw.in + ww.begin;
    for (int64_t d = wd.begin; d < wd.end; d += ad.dilation)
      for (int64_t h = wh.begin; h < wh.end; h += ah.dilation)
        for (int64_t w = ww.begin; w < ww.end; w += aw.dilation) {
          const int64_t at = (d * ah.in + h) * aw.in + w;
          const T v = x[at];
          if (beats(v, best)) {
            best = v;
            index = at;
          }
        }
    if (y) y[o] = best;
    if (indices) indices[o] = index;
  });
}

constexpr int64_t kRowPart = 256;  // outputs of a row whose maxima are computed together

// As max_plane, but a row of outputs processes one tap at a time, in loops over neighbors. y, or
// indices, may be null.
template <class T, class Out = int64_t>
void max_rows(const PoolState& s, const T* x, T* y, Out* indices) {
  const Axis &ad = s.axes[0], &ah = s.axes[1], &aw = s.axes[2];
  T best[kRowPart], found[kRowPart];
  int32_t index[kRowPart];
  for (int64_t row = 0; row < ad.out * ah.out; ++row) {
    const Window wd = ad.window(row / ah.out), wh = ah.window(row % ah.out);
    for (int64_t o0 = 0; o0 < aw.out; o0 += kRowPart) {
      const int64_t o1 = std::min(aw.out, o0 + kRowPart);
      for (int64_t o = o0; o < o1; ++o) {
        best[o - o0] = lowest<T>();
        index[o - o0] =
            static_cast<int32_t>((wd.begin * ah.in + wh.begin) * aw.in + aw.window(o).begin);
      }
      for (int64_t d = wd.begin; d < wd.end; d += ad.dilation)
        for (int64_t h = wh.begin; h < wh.end; h += ah.dilation)
          for (int64_t k = 0; k < aw.kernel; ++k) {
            const Reach& reach = s.reach[k];
            const int64_t first = std::max(reach.first, o0), last = std::min(reach.last, o1);
            const int64_t tap = (d * ah.in + h) * aw.in + k * aw.dilation - aw.padding;
            for (int64_t o = first; o < last; ++o) found[o - o0] = x[tap + o * aw.stride];
            auto at = static_cast<int32_t>(tap + first * aw.stride);
            const auto step = static_cast<int32_t>(aw.stride);
            for (int64_t o = first - o0; o < last - o0; ++o, at += step) {
              const T v = found[o];
              const bool is_better = beats(v, best[o]);  // a branch would be mispredicted
              best[o] = is_better ? v : best[o];
              index[o] = is_better ? at : index[o];
            }
          }
      if (y) std::copy_n(best, o1 - o0, y + row * aw.out + o0);
      if (indices) std::copy_n(index, o1 - o0, indices + row * aw.out + o0);
    }
  }
}

void indexed_max_run(const RunContext& c) noexcept {
  const PoolState& s = c.state<PoolState>();
  int64_t* indices = c.output_count() > 1 ? c.out(1).as<int64_t>() : nullptr;
  const auto of_plane = [&]<class T>(int64_t plane, const T* x, T* y) {
    const bool is_small = s.in_count() <= std::numeric_limits<int32_t>::max();
    const auto maxima = s.axes[2].adaptive || !is_small ? max_plane<T> : max_rows<T>;
    maxima(s, x, y, indices ? indices + plane * s.out_count() : nullptr);
  };
  for_number(c.out(0).dtype, [&]<class T>() {
    if constexpr (kIsHalf<T>)
      for_wide_planes<T>(c, s, of_plane);
    else
      for_planes(c, s, [&](int64_t plane) {
        of_plane(plane, c.in(0).as<T>() + plane * s.in_count(),
                 c.out(0).as<T>() + plane * s.out_count());
      });
  });
}

// The rows that a row of outputs reads are folded into one first.
template <class T>
void fold_maxima(const PoolState& s, const T* x, T* y) {
  const auto greater = [](T best, T v) { return beats(v, best) ? v : best; };
  const Axis &ad = s.axes[0], &ah = s.axes[1], &aw = s.axes[2];
  if (aw.in > PoolTable::kMaxColumns) return fold_plane(s, x, y, lowest<T>(), greater);
  for (int64_t row = 0; row < ad.out * ah.out; ++row, y += aw.out) {
    const Window wd = ad.window(row / ah.out), wh = ah.window(row % ah.out);
    T line[PoolTable::kMaxColumns];
    std::fill_n(line, aw.in, lowest<T>());
    for (int64_t d = wd.begin; d < wd.end; d += ad.dilation)
      for (int64_t h = wh.begin; h < wh.end; h += ah.dilation) {
        const T* const from = x + (d * ah.in + h) * aw.in;
        for (int64_t i = 0; i < aw.in; ++i) line[i] = greater(line[i], from[i]);
      }
    std::fill_n(y, aw.out, lowest<T>());
    fold_row(s, line, y, greater);
  }
}

template <class T>
void max_of_plane(const PoolState& s, const T* x, T* y) {
  if constexpr (std::is_same_v<T, float>) {
    if (is_pair_pool(s)) return pool_table().max_pairs(x, s.axes[1].out, s.axes[2].out, y);
    if (is_row_pool(s))
      return pool_rows(s, x, y, pool_table().max_rows,
                       [](const Window&, const Window&, WindowRow&) {});
  }
  fold_maxima(s, x, y);
}

void max_pool_run(const RunContext& c) noexcept {
  const PoolState& s = c.state<PoolState>();
  if (c.out(0).dtype == f32 && is_pair_pool(s)) return pool_pairs(c, s, pool_table().max_pairs);
  for_number(c.out(0).dtype, [&]<class T>() {
    if constexpr (kIsHalf<T>)
      for_wide_planes<T>(c, s, [&](int64_t, const float* x, float* y) { max_of_plane(s, x, y); });
    else if constexpr (std::is_same_v<T, float> || sizeof(T) == 1)
      for_planes(c, s, [&](int64_t plane) {
        max_of_plane(s, c.in(0).as<T>() + plane * s.in_count(),
                     c.out(0).as<T>() + plane * s.out_count());
      });
    else
      indexed_max_run(c);
  });
}

struct GradState {
  PoolState pool;
  bool is_small = true;  // positions of a plane fit 32 bits
  int64_t lanes = 1, slot_bytes = 0;
  int64_t wide_at = 0;  // of a plane of halves in f32, in a slot, in floats
};

Status max_pool_grad_prepare(PrepareContext& c) {
  GradState g{.pool = sizes_of(c.in(0), c.in(1))};
  read_windows(g.pool, c.attrs(), c.in(0).rank() - 2, true);
  g.is_small = g.pool.in_count() <= std::numeric_limits<int32_t>::max();
  g.lanes = tile_lanes(c, g.pool.planes);
  g.wide_at = (g.pool.out_count() + PoolTable::kMoreWritten) * (g.is_small ? 1 : 2);
  const bool is_half = c.out(0).dtype == f16 || c.out(0).dtype == bf16;
  g.slot_bytes = (g.wide_at + (is_half ? g.pool.in_count() : 0)) * 4;
  c.set_workspace(tile_workspace(g.lanes, g.slot_bytes));
  c.make_state(std::move(g));
  return {};
}

void max_places(const PoolState& s, const float* x, int32_t* places) {
  const Axis &ad = s.axes[0], &ah = s.axes[1], &aw = s.axes[2];
  for (int64_t row = 0; row < ad.out * ah.out; ++row) {
    const Window wd = ad.window(row / ah.out), wh = ah.window(row % ah.out);
    pool_table().max_places(row_of_windows(s, wd, wh, x),
                            static_cast<int32_t>((wd.begin * ah.in + wh.begin) * aw.in),
                            places + row * aw.out);
  }
}

template <class T, class Index>
void find_places(const PoolState& s, const T* x, Index* places) {
  if constexpr (std::is_same_v<Index, int64_t>)
    return max_plane<T>(s, x, nullptr, places);
  else {
    if constexpr (std::is_same_v<T, float>)
      if (is_row_pool(s) && s.axes[2].stride <= 2) return max_places(s, x, places);
    max_rows<T>(s, x, nullptr, places);
  }
}

// Finds all maxima of a plane before writing dx, which may share memory with x. Halves are widened
// in `wide`.
template <class T, class Index>
void max_grad_plane(const PoolState& s, const T* x, const T* dy, T* dx,
                    [[maybe_unused]] float* wide, Index* places) {
  if constexpr (kIsHalf<T>) {
    half_table().widen(s.in_count(), x, wide);
    find_places(s, wide, places);
  } else {
    find_places(s, x, places);
  }
  std::fill_n(dx, s.in_count(), T{});
  for (int64_t o = 0; o < s.out_count(); ++o) {
    const auto place = static_cast<int64_t>(places[o]);
    if (place < 0 || place >= s.in_count()) continue;  // of a window that is all padding
    T* to = dx + place;
    store(to, load(to) + load(dy + o));
  }
}

void max_pool_grad_run(const RunContext& c) noexcept {
  const GradState& g = c.state<GradState>();
  const PoolState& s = g.pool;
  for_number(c.out(0).dtype, [&]<class T>() {
    for_tiles(c, s.planes, g.lanes, g.slot_bytes, [&](int64_t plane, float* slot) {
      const T* x = c.in(0).as<T>() + plane * s.in_count();
      const T* dy = c.in(1).as<T>() + plane * s.out_count();
      T* dx = c.out(0).as<T>() + plane * s.in_count();
      float* const wide = slot + g.wide_at;
      if (g.is_small)
        max_grad_plane(s, x, dy, dx, wide, reinterpret_cast<int32_t*>(slot));
      else
        max_grad_plane(s, x, dy, dx, wide, reinterpret_cast<int64_t*>(slot));
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "max_pool", .name = "taps", .prepare = max_pool_prepare, .run = max_pool_run},
    {.op = "max_pool_grad",
     .name = "planes",
     .prepare = max_pool_grad_prepare,
     .run = max_pool_grad_run},
    {.op = "max_pool_with_indices",
     .name = "windows",
     .prepare = max_pool_prepare,
     .run = indexed_max_run},
    {.op = "adaptive_max_pool",
     .name = "windows",
     .prepare = adaptive_prepare,
     .run = indexed_max_run},
};

}  // namespace

std::span<const KernelDef> pool() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
