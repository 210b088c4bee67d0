// SPDX-License-Identifier: Apache-2.0
// cdist. Reads b in place for a few rows of a. For more rows of a, uses panels of b, which hold
// several rows of b side by side; those of halves are wide. Plain loops support every dtype, stride
// and p.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "hg/kernel.h"
#include "kernels/arithmetic.h"
#include "kernels/ceil_div.h"
#include "kernels/gemm/gemv_simd.h"
#include "kernels/gemm/matmul_shape.h"
#include "kernels/simd/half_simd.h"
#include "kernels/simd/transpose_simd.h"
#include "lib/table/holds.h"
#include "lib/table/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/cdist.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#ifndef HG_KERNELS_GEMM_CDIST_ONCE
#define HG_KERNELS_GEMM_CDIST_ONCE
namespace hg::kernels {
// Adds to y[2, columns of a panel] the terms of the differences of two rows of a[2, k] and of
// panel[k, columns]. Both rows may be the same.
template <class T>
struct PanelBlock {
  int64_t k;
  const T *a, *a_next;
  int64_t a_col;
  const T* panel;
  T *y, *y_next;
};
template <class T>
struct PanelTable {
  int64_t columns;  // of a panel
  // Sums of squares and of magnitudes, the largest magnitude, and the number of nonzero
  // differences.
  void (*squares)(const PanelBlock<T>& b);
  void (*sizes)(const PanelBlock<T>& b);
  void (*largest)(const PanelBlock<T>& b);
  void (*different)(const PanelBlock<T>& b);
  // Takes the roots of n sums of squares. Returns whether f32 can represent all of them.
  bool (*roots)(T* y, int64_t n);
};
// Sums whose roots f32 can represent are between these.
constexpr float kSmallestRoot = 0x1p-30f, kNoRoot = std::numeric_limits<float>::infinity();
constexpr int64_t kMostColumns = 64;
struct PanelTables {
  PanelTable<float> in_f32;
  PanelTable<double> in_f64;  // empty if the instruction set has no vectors of doubles
};
}  // namespace hg::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct Squares {
  template <class V>
  static HWY_INLINE V add(V sum, V d) {
    return hn::MulAdd(d, d, sum);
  }
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::Add(a, b);
  }
};
struct SizesOf {
  template <class V>
  static HWY_INLINE V add(V sum, V d) {
    return hn::Add(sum, hn::Abs(d));
  }
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::Add(a, b);
  }
};
struct Largest {  // ignores NaN, as in torch
  template <class V>
  static HWY_INLINE V add(V best, V d) {
    return join(best, hn::Abs(d));
  }
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::IfThenElse(hn::Gt(b, a), b, a);
  }
};
struct Different {  // NaN if one is NaN
  template <class V>
  static HWY_INLINE V add(V sum, V d) {
    const hn::DFromV<V> tag;
    const V one = hn::IfThenElse(hn::IsNaN(d), d, hn::Set(tag, 1));
    return hn::Add(sum, hn::IfThenZeroElse(hn::Eq(d, hn::Zero(tag)), one));
  }
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::Add(a, b);
  }
};

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
constexpr int kLanesOf = static_cast<int>(hn::MaxLanes(Tag<T>()));
constexpr int kVectors = kLanesOf<float> >= 4 ? 4 : 1;  // vectors per panel

template <class F, class T>
void panel_block(const PanelBlock<T>& b) {
  const Tag<T> d;
  hn::Vec<Tag<T>> sums[2][kVectors];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::Zero(d);
  const T* panel = b.panel;
  for (int64_t p = 0; p < b.k; ++p, panel += kVectors * kLanesOf<T>) {
    const auto first = hn::Set(d, b.a[p * b.a_col]), next = hn::Set(d, b.a_next[p * b.a_col]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const auto right = hn::LoadU(d, panel + v * kLanesOf<T>);
      sums[0][v] = F::add(sums[0][v], hn::Sub(first, right));
      sums[1][v] = F::add(sums[1][v], hn::Sub(next, right));
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const auto first = F::join(hn::LoadU(d, b.y + v * kLanesOf<T>), sums[0][v]);
    const auto next = F::join(hn::LoadU(d, b.y_next + v * kLanesOf<T>), sums[1][v]);
    hn::StoreU(first, d, b.y + v * kLanesOf<T>);
    hn::StoreU(next, d, b.y_next + v * kLanesOf<T>);
  }
}

template <class T>
bool roots(T* y, int64_t n) {
  const Tag<T> d;
  auto all_fit = hn::Eq(hn::Zero(d), hn::Zero(d));
  HWY_ALIGN T rest[kLanesOf<T>];
  for (int64_t j = 0; j < n; j += kLanesOf<T>) {
    const bool is_whole = n - j >= kLanesOf<T>;
    if (!is_whole) {
      std::fill_n(rest, kLanesOf<T>, T(1));
      std::copy_n(y + j, n - j, rest);
    }
    const auto root = hn::Sqrt(hn::LoadU(d, is_whole ? y + j : rest));
    const auto fits =
        hn::And(hn::Gt(root, hn::Set(d, kSmallestRoot)), hn::Lt(root, hn::Set(d, kNoRoot)));
    all_fit = hn::And(all_fit, fits);
    hn::StoreU(root, d, is_whole ? y + j : rest);
    if (!is_whole) std::copy_n(rest, n - j, y + j);
  }
  return hn::AllTrue(d, all_fit);
}

template <class T>
constexpr PanelTable<T> kPanelTable = {kVectors* kLanesOf<T>,     panel_block<Squares, T>,
                                       panel_block<SizesOf, T>,   panel_block<Largest, T>,
                                       panel_block<Different, T>, roots<T>};
static_assert(kPanelTable<float>.columns <= kMostColumns);

}  // namespace

#if HWY_HAVE_FLOAT64
constexpr PanelTables kPanelTables = {kPanelTable<float>, kPanelTable<double>};
#else
constexpr PanelTables kPanelTables = {kPanelTable<float>, {}};
#endif

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct CdistState : MatmulShape {  // b as [k, n]
  double p = 2;
};

// (sum over m of |a[m] - b[m]|^p)^(1/p); p = 0 counts differences, infinity takes the largest,
// which ignores NaN.
template <class T, class Sum = SumOf<T>>
Sum distance(const T* a, int64_t a_step, const T* b, int64_t b_step, int64_t k, double p) {
  const auto sum = [&](const auto& add) {
    Sum s = 0;
    for (int64_t q = 0; q < k; ++q)
      add(s, std::abs(Sum(load(a + q * a_step) - load(b + q * b_step))));
    return s;
  };
  if (p == 2) return std::sqrt(sum([](Sum& s, Sum d) { s += d * d; }));
  if (p == 1) return sum([](Sum& s, Sum d) { s += d; });
  if (p == 0) return sum([](Sum& s, Sum d) { s += d != d ? d : Sum(d != 0); });
  if (std::isinf(p)) return sum([](Sum& s, Sum d) { s = d > s ? d : s; });
  const Sum power = static_cast<Sum>(p);
  return std::pow(sum([&](Sum& s, Sum d) { s += std::pow(d, power); }), static_cast<Sum>(1 / p));
}

// f(row of a, the matrix b of its batch, row of y)
template <class T, class F>
void each_row(const RunContext& c, const F& f) {
  const MatmulShape& s = c.state<CdistState>();
  const T* a = c.in(0).as<T>();
  const T* b = c.in(1).as<T>();
  T* y = c.out(0).as<T>();
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, s.n * s.k));
  c.parallel_for(s.batches() * s.m, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      f(a + s.a_offset(row / s.m) + row % s.m * s.a_row, b + s.b_offset(row / s.m), y + row * s.n);
  });
}

CdistState shape_of(const PrepareContext& c) {
  Tensor transposed = c.in(1);
  const int last = transposed.rank() - 1;
  std::swap(transposed.shape[last], transposed.shape[last - 1]);
  std::swap(transposed.strides[last], transposed.strides[last - 1]);
  return {matmul_shape(c.in(0), transposed), c.attrs().real("p")};
}
Status cdist_prepare(PrepareContext& c) {
  c.make_state(shape_of(c));
  return {};
}

void cdist_run(const RunContext& c) noexcept {
  const CdistState& s = c.state<CdistState>();
  for_float(c.out(0).dtype, [&]<class T>() {
    each_row<T>(c, [&](const T* a, const T* b, T* y) {
      for (int64_t j = 0; j < s.n; ++j)
        y[j] = store<T>(distance(a, s.a_col, b + j * s.b_col, s.b_row, s.k, s.p));
    });
  });
}

template <class T>
const PanelTable<T>& panel_table() {
  if constexpr (std::is_same_v<T, float>) return HG_SIMD_CHOOSE(kPanelTables)->in_f32;
  if constexpr (std::is_same_v<T, double>) return HG_SIMD_CHOOSE(kPanelTables)->in_f64;
}

// Roots of sums of squares. Sums that f32 cannot represent are computed in f64.
template <class T>
void take_roots(const MatmulShape& s, const T* a, const T* b, int64_t columns, T* y) {
  if (panel_table<T>().roots(y, columns) || std::is_same_v<T, double>) return;
  for (int64_t j = 0; j < columns; ++j)
    if (!(y[j] > kSmallestRoot && y[j] < kNoRoot))
      y[j] = store<T>(distance(a, s.a_col, b + j * s.b_col, s.b_row, s.k, 2));
}

// With fewer rows, packing b into panels takes longer than it saves.
constexpr int64_t kFewRows = 4;

bool accepts_rows(const PrepareContext& c) {
  const auto in_rows = [&](int i) {
    return c.in(i).strides.back() == 1 || c.in(i).shape.back() == 1;
  };
  return c.out(0).dtype == f32 && c.attrs().real("p") == 2 && in_rows(0) && in_rows(1) &&
         shape_of(c).m < kFewRows;
}

void run_rows(const RunContext& c) noexcept {
  const MatmulShape& s = c.state<CdistState>();
  const auto distances = gemv_table().distances;
  each_row<float>(c, [&](const float* a, const float* b, float* y) {
    distances(s.n, s.k, a, b, s.b_col, y);
    take_roots(s, a, b, s.n, y);
  });
}

bool has_panels(const PrepareContext& c) {
  const double p = c.attrs().real("p");
  return p == 0 || p == 1 || p == 2 || p == kInfinity;
}

bool accepts_panels(const PrepareContext& c) {
  const DType dtype = c.out(0).dtype;
  const bool is_vectorized = dtype == f32 || (dtype == f64 && panel_table<double>().columns > 0);
  return is_vectorized && has_panels(c) && shape_of(c).m >= kFewRows;
}

constexpr int64_t kDepth = 64;  // of a panel: sums of this many elements are added up

template <class T>
auto block_of(const PanelTable<T>& table, double p) {
  return p == 2 ? table.squares : p == 1 ? table.sizes : p == 0 ? table.different : table.largest;
}

// panel[p, j] = element p of column j of b
template <class T>
void fill_panel(const T* b, const MatmulShape& s, int64_t columns, int64_t k, int64_t width,
                T* panel) {
  if constexpr (std::is_same_v<T, float>)
    if (s.b_row == 1)
      return transpose_words()(reinterpret_cast<const uint32_t*>(b), s.b_col,
                               reinterpret_cast<uint32_t*>(panel), width, k, columns);
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t p = 0; p < k; ++p) panel[p * width + j] = b[j * s.b_col + p * s.b_row];
}

template <class T>
void run_panels_of(const RunContext& c) {
  const CdistState& s = c.state<CdistState>();
  const PanelTable<T>& table = panel_table<T>();
  const auto block = block_of(table, s.p);
  const int64_t panels = ceil_div(s.n, table.columns);
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, s.m * s.k));
  c.parallel_for(s.batches() * panels, grain, [&](int64_t begin, int64_t end) {
    alignas(64) T panel[kDepth * kMostColumns] = {};
    alignas(64) T sums[2][kMostColumns];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t batch = task / panels, first = task % panels * table.columns;
      const int64_t columns = std::min(table.columns, s.n - first);
      const T* a = c.in(0).as<T>() + s.a_offset(batch);
      const T* b = c.in(1).as<T>() + s.b_offset(batch) + first * s.b_col;
      T* y = c.out(0).as<T>() + batch * s.m * s.n + first;
      for (int64_t depth = 0; depth == 0 || depth < s.k; depth += kDepth) {
        const int64_t k = std::min(kDepth, s.k - depth);
        fill_panel(b + depth * s.b_row, s, columns, k, table.columns, panel);
        for (int64_t i = 0; i < s.m; i += 2) {
          const int64_t rows = std::min<int64_t>(2, s.m - i), next = i + rows - 1;
          for (int64_t r = 0; r < rows; ++r) {
            std::fill_n(sums[r], table.columns, T(0));
            if (depth > 0) std::copy_n(y + (i + r) * s.n, columns, sums[r]);
          }
          block({k, a + i * s.a_row + depth * s.a_col, a + next * s.a_row + depth * s.a_col,
                 s.a_col, panel, sums[0], sums[rows - 1]});
          for (int64_t r = 0; r < rows; ++r) std::copy_n(sums[r], columns, y + (i + r) * s.n);
        }
      }
      for (int64_t i = 0; i < s.m && s.p == 2; ++i)
        take_roots(s, a + i * s.a_row, b, columns, y + i * s.n);
    }
  });
}

void run_panels(const RunContext& c) noexcept {
  c.out(0).dtype == f64 ? run_panels_of<double>(c) : run_panels_of<float>(c);
}

#if !defined(HG_SMALL)
// Distances of halves are computed in f32 and rounded once. Some rows of a and their sums are wide
// at a time.
constexpr int64_t kWideRows = 32;
static_assert(kWideRows <= kMostColumns);

template <class T>
void widen(const T* from, int64_t step, int64_t count, float* to) {
  if (step == 1) return half_table().widen(count, from, to);
  for (int64_t i = 0; i < count; ++i) to[i] = load(from + i * step);
}

template <class T>
void run_half_panels_of(const RunContext& c) {
  const CdistState& s = c.state<CdistState>();
  const PanelTable<float>& table = panel_table<float>();
  const auto block = block_of(table, s.p);
  const int64_t panels = ceil_div(s.n, table.columns), blocks = ceil_div(s.m, kWideRows);
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, kWideRows * s.k));
  c.parallel_for(s.batches() * panels * blocks, grain, [&](int64_t begin, int64_t end) {
    alignas(64) float panel[kDepth * kMostColumns] = {};
    alignas(64) float sums[kWideRows][kMostColumns];
    float wide[kMostColumns * kDepth];  // rows of a, or columns of b
    for (int64_t task = begin; task < end; ++task) {
      const int64_t batch = task / blocks / panels;
      const int64_t j0 = task / blocks % panels * table.columns, i0 = task % blocks * kWideRows;
      const int64_t columns = std::min(table.columns, s.n - j0),
                    rows = std::min(kWideRows, s.m - i0);
      const T* a = c.in(0).as<T>() + s.a_offset(batch) + i0 * s.a_row;
      const T* b = c.in(1).as<T>() + s.b_offset(batch) + j0 * s.b_col;
      T* y = c.out(0).as<T>() + (batch * s.m + i0) * s.n + j0;
      std::fill_n(sums[0], rows * kMostColumns, 0.0f);
      for (int64_t depth = 0; depth < s.k; depth += kDepth) {
        const int64_t k = std::min(kDepth, s.k - depth);
        for (int64_t j = 0; j < columns; ++j)
          widen(b + j * s.b_col + depth * s.b_row, s.b_row, k, wide + j * kDepth);
        transpose_words()(reinterpret_cast<const uint32_t*>(wide), kDepth,
                          reinterpret_cast<uint32_t*>(panel), table.columns, k, columns);
        for (int64_t i = 0; i < rows; ++i)
          widen(a + i * s.a_row + depth * s.a_col, s.a_col, k, wide + i * kDepth);
        for (int64_t i = 0; i < rows; i += 2) {
          const int64_t next = std::min(i + 1, rows - 1);
          block({k, wide + i * kDepth, wide + next * kDepth, 1, panel, sums[i], sums[next]});
        }
      }
      for (int64_t i = 0; i < rows; ++i) {
        if (s.p == 2 && !table.roots(sums[i], columns))
          for (int64_t j = 0; j < columns; ++j)
            if (!(sums[i][j] > kSmallestRoot && sums[i][j] < kNoRoot))
              sums[i][j] = static_cast<float>(
                  distance<T, double>(a + i * s.a_row, s.a_col, b + j * s.b_col, s.b_row, s.k, 2));
        half_table().narrow(columns, sums[i], y + i * s.n);
      }
    }
  });
}

bool accepts_half_panels(const PrepareContext& c) {
  const DType dtype = c.out(0).dtype;
  return ((holds(DType::f16) && dtype == f16) || (holds(DType::bf16) && dtype == bf16)) &&
         has_panels(c);
}

void run_half_panels(const RunContext& c) noexcept {
  c.out(0).dtype == f16 ? run_half_panels_of<Half>(c) : run_half_panels_of<BFloat16>(c);
}
#endif

constexpr KernelDef row(std::string_view name, bool (*accepts)(const PrepareContext&),
                        void (*run)(const RunContext&) noexcept) {
  return {.op = "cdist",
          .name = name,
          .accepts = accepts,
          .prepare = cdist_prepare,
          .run = run,
          .strided = kAllStrided};
}

constexpr KernelDef kKernels[] = {
    row("rows", accepts_rows, run_rows),
    row("panels", accepts_panels, run_panels),
#if !defined(HG_SMALL)
    row("half_panels", accepts_half_panels, run_half_panels),
#endif
    row("loops", nullptr, cdist_run),
};

}  // namespace

std::span<const KernelDef> cdist() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
#endif
