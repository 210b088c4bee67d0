// SPDX-License-Identifier: Apache-2.0
// matmul and linear in f64, and matmul in i64 and i32, with panels of b of two vectors. The sums of
// 4 rows of a at a time stay in registers. The order of an element's sum does not depend on the
// tiles of y. Integers wrap around.
#include "kernels/gemm/gemm_panels.h"

#include <algorithm>
#include <cstdint>

#include "kernels/arithmetic.h"
#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/gemm/matmul_shape.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemm_panels.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/doubles-inl.h"
// clang-format on

#ifndef HG_KERNELS_GEMM_PRODUCT_TABLES
#define HG_KERNELS_GEMM_PRODUCT_TABLES
namespace hg::kernels {
struct ProductTables {
  PanelProducts<double> f64;
  PanelProducts<int64_t> i64;
  PanelProducts<int32_t> i32;
};
}  // namespace hg::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

namespace {

// Vectors of T.
template <class T>
struct Vectors {
  using Tag = hn::ScalableTag<T>;
  using Vector = hn::Vec<Tag>;
  static constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(Tag()));
  static HWY_INLINE Vector zero() { return hn::Zero(Tag()); }
  static HWY_INLINE Vector set(T value) { return hn::Set(Tag(), value); }
  static HWY_INLINE Vector load(const T* from) { return hn::LoadU(Tag(), from); }
  static HWY_INLINE void store(Vector v, T* to) { hn::StoreU(v, Tag(), to); }
  static HWY_INLINE Vector sum(Vector a, Vector b) { return hn::Add(a, b); }
  static HWY_INLINE Vector mul_add(Vector a, Vector b, Vector c) {
    return hn::Add(hn::Mul(a, b), c);
  }
};
template <>
struct Vectors<double> {
  using Vector = Doubles;
  static constexpr int64_t kLanes = kDoubles;
  static HWY_INLINE Vector zero() { return no_doubles(); }
  static HWY_INLINE Vector set(double value) { return set_doubles(value); }
  static HWY_INLINE Vector load(const double* from) { return load_doubles(from); }
  static HWY_INLINE void store(Vector v, double* to) { store_doubles(v, to); }
  static HWY_INLINE Vector sum(Vector a, Vector b) { return add(a, b); }
  static HWY_INLINE Vector mul_add(Vector a, Vector b, Vector c) {
    return HWY_NAMESPACE::mul_add(a, b, c);
  }
};

template <class T>
HWY_INLINE T sum_of(T a, T b) {
  return store<T>(load(a) + load(b));
}

template <int kRows, class T>
void product_of_rows(const PanelProduct<T>& b) {
  using V = Vectors<T>;
  typename V::Vector sums[kRows][2];
  HWY_ALIGN T out[2 * V::kLanes];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = V::zero();
  const T *a = b.a, *panel = b.panel;
  for (int64_t p = 0; p < b.k; ++p, a += b.a_col, panel += 2 * V::kLanes) {
    const auto left = V::load(panel), right = V::load(panel + V::kLanes);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const auto factor = V::set(a[i * b.a_row]);
      sums[i][0] = V::mul_add(factor, left, sums[i][0]);
      sums[i][1] = V::mul_add(factor, right, sums[i][1]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
    V::store(sums[i][0], out);
    V::store(sums[i][1], out + V::kLanes);
    T* const y = b.y + i * b.y_row;
    for (int64_t j = 0; j < b.columns; ++j) y[j] = b.add ? sum_of(y[j], out[j]) : out[j];
  }
}

template <class T>
void block(const PanelProduct<T>& b) {
  switch (b.rows) {
    case 4:
      return product_of_rows<4>(b);
    case 3:
      return product_of_rows<3>(b);
    case 2:
      return product_of_rows<2>(b);
    default:
      return product_of_rows<1>(b);
  }
}

template <class T>
T dot(const T* a, const T* b, int64_t k) {
  using V = Vectors<T>;
  constexpr int kSums = 4;
  typename V::Vector sums[kSums];
#pragma GCC unroll 4
  for (auto& sum : sums) sum = V::zero();
  int64_t p = 0;
  for (; p + kSums * V::kLanes <= k; p += kSums * V::kLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < kSums; ++v)
      sums[v] = V::mul_add(V::load(a + p + v * V::kLanes), V::load(b + p + v * V::kLanes), sums[v]);
  }
  HWY_ALIGN T lanes[V::kLanes];
  V::store(V::sum(V::sum(sums[0], sums[1]), V::sum(sums[2], sums[3])), lanes);
  auto total = load(T(0));
  for (const T lane : lanes) total += load(lane);
  for (; p < k; ++p) total += load(a[p]) * load(b[p]);
  return store<T>(total);
}

template <class T>
constexpr PanelProducts<T> kProducts = {2 * Vectors<T>::kLanes, block<T>, dot<T>};

}  // namespace

constexpr ProductTables kProductTables = {kProducts<double>, kProducts<int64_t>,
                                          kProducts<int32_t>};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const PanelProducts<double>& double_panels() { return HG_SIMD_CHOOSE(kProductTables)->f64; }

namespace {

constexpr int64_t kRows = 128;  // of a tile

template <class T>
const PanelProducts<T>& products_of() {
  if constexpr (std::is_same_v<T, double>) return double_panels();
  if constexpr (std::is_same_v<T, int64_t>) return HG_SIMD_CHOOSE(kProductTables)->i64;
  if constexpr (std::is_same_v<T, int32_t>) return HG_SIMD_CHOOSE(kProductTables)->i32;
}

struct GemmPanels {
  MatmulShape s;
  int64_t width = 1;    // of a panel
  bool is_dot = false;  // b is one contiguous column, and so are the rows of a
  int64_t lanes = 1, slot_bytes = 0;

  int64_t tiles_m() const { return ceil_div(s.m, kRows); }
  int64_t tiles_n() const { return ceil_div(s.n, width); }
};

template <class T>
Status prepare(PrepareContext& c) {
  GemmPanels g{product_shape(c), products_of<T>().columns};
  g.is_dot = g.s.n == 1 && (g.s.a_col == 1 || g.s.k == 1) && (g.s.b_row == 1 || g.s.k == 1);
  if (!g.is_dot) {
    g.lanes = tile_lanes(c, g.s.batches() * g.tiles_m() * g.tiles_n());
    g.slot_bytes = kDepthPiece * g.width * static_cast<int64_t>(sizeof(T));
    c.set_workspace(tile_workspace(g.lanes, g.slot_bytes));
  }
  c.make_state(std::move(g));
  return {};
}

// An element with the bias, the residual and the activation.
template <class T>
struct Finish {
  const T *bias, *residual;
  Activation activation;

  T operator()(T value, int64_t column, int64_t at) const {
    auto sum = load(value);
    if (bias) sum += load(bias[column]);
    if (residual) sum += load(residual[at]);
    if constexpr (!std::is_integral_v<T>) sum = activate(activation, sum);
    return store<T>(sum);
  }
};

template <class T>
void run_dots(const RunContext& c, const MatmulShape& s, const Finish<T>& finish) {
  const PanelProducts<T>& table = products_of<T>();
  const T *const a = c.in(0).as<T>(), *const b = c.in(1).as<T>();
  T* const y = c.out(0).as<T>();
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, s.k));
  c.parallel_for(s.batches() * s.m, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t batch = i / s.m;
      const T* const row = a + s.a_offset(batch) + i % s.m * s.a_row;
      y[i] = finish(table.dot(row, b + s.b_offset(batch), s.k), 0, i);
    }
  });
}

template <class T>
void run(const RunContext& c) noexcept {
  const GemmPanels& g = c.state<GemmPanels>();
  const MatmulShape& s = g.s;
  const Finish<T> finish = {c.has(2) ? c.in(2).as<T>() : nullptr,
                            c.has(3) ? c.in(3).as<T>() : nullptr, s.activation};
  if (g.is_dot) return run_dots(c, s, finish);
  const PanelProducts<T>& table = products_of<T>();
  const int64_t tiles_m = g.tiles_m(), tiles_n = g.tiles_n(), width = g.width;
  for_tiles(c, s.batches() * tiles_m * tiles_n, g.lanes, g.slot_bytes,
            [&](int64_t index, float* slot) {
              auto* const panel = reinterpret_cast<T*>(slot);
              const int64_t batch = index / (tiles_m * tiles_n);
              const int64_t i0 = index % tiles_m * kRows, j0 = index / tiles_m % tiles_n * width;
              const int64_t rows = std::min(kRows, s.m - i0), columns = std::min(width, s.n - j0);
              const T* a = c.in(0).as<T>() + s.a_offset(batch) + i0 * s.a_row;
              const T* b = c.in(1).as<T>() + s.b_offset(batch) + j0 * s.b_col;
              const int64_t offset = (batch * s.m + i0) * s.n + j0;
              T* const y = c.out(0).as<T>() + offset;
              for (int64_t k0 = 0; k0 == 0 || k0 < s.k; k0 += kDepthPiece) {
                const int64_t piece = std::min(kDepthPiece, s.k - k0);
                for (int64_t p = 0; p < piece; ++p)
                  for (int64_t j = 0; j < width; ++j)
                    panel[p * width + j] = j < columns ? b[(k0 + p) * s.b_row + j * s.b_col] : 0;
                for (int64_t i = 0; i < rows; i += 4)
                  table.block({.rows = std::min<int64_t>(4, rows - i),
                               .columns = columns,
                               .k = piece,
                               .a = a + i * s.a_row + k0 * s.a_col,
                               .a_row = s.a_row,
                               .a_col = s.a_col,
                               .panel = panel,
                               .y = y + i * s.n,
                               .y_row = s.n,
                               .add = k0 > 0});
              }
              for (int64_t i = 0; i < rows; ++i)
                for (int64_t j = 0; j < columns; ++j)
                  y[i * s.n + j] = finish(y[i * s.n + j], j0 + j, offset + i * s.n + j);
            });
}

template <class T>
constexpr KernelDef row(std::string_view op, std::string_view name, uint32_t strided) {
  return {.op = op,
          .name = name,
          .accepts =
              [](const PrepareContext& c) {
                return c.out(0).dtype == dtype_of<T>() && c.out(0).count() > 0;
              },
          .prepare = prepare<T>,
          .run = run<T>,
          .strided = strided};
}

constexpr KernelDef kKernels[] = {
    row<double>("matmul", "gemm_double", kAllStrided),
    row<double>("linear", "gemm_double", 1u << 1),
    row<int64_t>("matmul", "gemm_i64", kAllStrided),
    row<int32_t>("matmul", "gemm_i32", kAllStrided),
};

}  // namespace

std::span<const KernelDef> gemm_panels() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
#endif
