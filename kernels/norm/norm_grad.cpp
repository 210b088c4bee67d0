// SPDX-License-Identifier: Apache-2.0
// Gradients of layer_norm and batch_norm in f32 and f64; 16-bit floats use the expansion.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "hg/kernel.h"
#include "kernels/element.h"
#include "kernels/norm/norm_grad_simd.h"
#include "kernels/norm/norm_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kMostParts = 32;  // of the rows, each with separate sums

struct NormGrad {
  int64_t rows = 0, count = 0;          // layer_norm: x seen as [rows, count]
  int64_t parts = 1;                    // of the rows
  int64_t channels = 1, positions = 1;  // batch_norm: x is [rows, channels, positions]
  double eps = 0;
  const NormTable* table = &norm_table();
  const NormGradTable* grads = &norm_grad_table();
};

bool accepts(const PrepareContext& c) { return c.out(0).dtype == f32 || c.out(0).dtype == f64; }

template <class T>
void deviations(const NormGrad& s, const T* x, int64_t count, T shift, double& sum,
                double& square) {
  if constexpr (std::is_same_v<T, float>) return s.table->deviations(x, count, shift, sum, square);
  sum = square = 0;
  for (int64_t i = 0; i < count; ++i) {
    const T v = x[i] - shift;
    sum += v;
    square += v * v;
  }
}

template <class T>
void grad_sums(const NormGrad& s, const T* x, const T* dy, const T* weight, int64_t count, T mean,
               double& sum, double& product) {
  if constexpr (std::is_same_v<T, float>)
    return s.grads->grad_sums(x, dy, weight, count, mean, sum, product);
  sum = product = 0;
  for (int64_t i = 0; i < count; ++i) {
    const T g = weight ? dy[i] * weight[i] : dy[i];
    sum += g;
    product += g * (x[i] - mean);
  }
}

template <class T>
void grad_line(const NormGrad& s, const T* x, const T* dy, const T* weight, T* dx, int64_t count,
               T mean, T g_mean, T a, T b) {
  if constexpr (std::is_same_v<T, float>)
    return s.grads->grad_line(x, dy, weight, dx, count, mean, g_mean, a, b);
  for (int64_t i = 0; i < count; ++i) {
    const T g = weight ? dy[i] * weight[i] : dy[i];
    dx[i] = ((g - g_mean) + (x[i] - mean) * b) * a;
  }
}

template <class T>
void grad_affine(const NormGrad& s, const T* x, const T* dy, int64_t count, T mean, T scale,
                 T* dweight, T* dbias) {
  if constexpr (std::is_same_v<T, float>)
    return s.grads->grad_affine(x, dy, count, mean, scale, dweight, dbias);
  for (int64_t i = 0; i < count; ++i) {
    dweight[i] += dy[i] * ((x[i] - mean) * scale);
    dbias[i] += dy[i];
  }
}

// Converts sums of distances to a rounded mean, and of their squares.
double variance(double n, double sum, double square) {
  return std::max(square - sum * sum / n, 0.0) / n;
}

template <class F>
void for_width(const RunContext& c, const F& f) {
  if (c.out(0).dtype == f32)
    f(float());
  else
    f(double());
}

Status layer_norm_prepare(PrepareContext& c) {
  NormGrad s;
  s.count = c.attrs().integers("normalized_shape").count();
  s.rows = s.count == 0 ? 0 : c.in(0).count() / s.count;
  s.parts = std::clamp<int64_t>(s.rows / 8, 1, kMostParts);
  s.eps = c.attrs().real("eps");
  c.set_workspace(2 * s.parts * s.count * size_of(c.out(0).dtype));
  c.make_state(s);
  return {};
}

// A task processes the rows of some parts, and sums dweight and dbias per part.
void layer_norm_run(const RunContext& c) noexcept {
  const NormGrad& s = c.state<NormGrad>();
  for_width(c, [&](auto zero) {
    using T = decltype(zero);
    const T* x = c.in(0).as<T>();
    const T* weight = c.has(1) ? c.in(1).as<T>() : nullptr;
    const T* dy = c.in(2).as<T>();
    T* dx = c.out(0).as<T>();
    T* sums = c.workspace<T>();  // [parts, 2, count]
    const auto n = static_cast<double>(s.count);
    c.parallel_for(s.parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        T* dweight = sums + part * 2 * s.count;
        T* dbias = dweight + s.count;
        std::fill(dweight, dweight + 2 * s.count, T(0));
        for (int64_t r = s.rows * part / s.parts; r < s.rows * (part + 1) / s.parts; ++r) {
          const int64_t at = r * s.count;
          double sum, square, g_sum, g_product;
          deviations<T>(s, x + at, s.count, T(0), sum, square);
          const T mean = static_cast<T>(sum / n);
          deviations<T>(s, x + at, s.count, mean, sum, square);
          const double rstd = 1 / std::sqrt(variance(n, sum, square) + s.eps);
          const T scale = static_cast<T>(rstd);
          grad_sums<T>(s, x + at, dy + at, weight, s.count, mean, g_sum, g_product);
          grad_affine<T>(s, x + at, dy + at, s.count, mean, scale, dweight, dbias);
          grad_line<T>(s, x + at, dy + at, weight, dx + at, s.count, mean,
                       static_cast<T>(g_sum / n), scale,
                       static_cast<T>(-rstd * rstd * g_product / n));
        }
      }
    });
    T* dweight = c.out(1).as<T>();
    T* dbias = c.out(2).as<T>();
    for (int64_t i = 0; i < s.count; ++i) {
      dweight[i] = dbias[i] = 0;
      for (int64_t part = 0; part < s.parts; ++part) {
        dweight[i] += sums[part * 2 * s.count + i];
        dbias[i] += sums[(part * 2 + 1) * s.count + i];
      }
    }
  });
}

Status batch_norm_prepare(PrepareContext& c) {
  NormGrad s;
  const Sizes& shape = c.in(0).shape;
  s.rows = shape[0];
  s.channels = shape[1];
  for (int i = 2; i < shape.rank(); ++i) s.positions *= shape[i];
  s.eps = c.attrs().real("eps");
  c.make_state(s);
  return {};
}

void batch_norm_run(const RunContext& c) noexcept {
  const NormGrad& s = c.state<NormGrad>();
  for_width(c, [&](auto zero) {
    using T = decltype(zero);
    const T* x = c.in(0).as<T>();
    const T* weight = c.has(1) ? c.in(1).as<T>() : nullptr;
    const T* dy = c.in(2).as<T>();
    T* dx = c.out(0).as<T>();
    T* dweight = c.out(1).as<T>();
    T* dbias = c.out(2).as<T>();
    const int64_t step = s.channels * s.positions, each = s.rows * s.positions;
    const auto n = static_cast<double>(each);
    if (each == 0) {  // no variance
      std::fill_n(dweight, s.channels, T(0));
      std::fill_n(dbias, s.channels, T(0));
      return;
    }
    c.parallel_for(s.channels, grain_of(each, 1 << 12), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t first = k * s.positions;
        double sum = 0, d_sum = 0, square = 0, g_sum = 0, g_product = 0, a, b;
        for (int64_t i = 0; i < s.rows; ++i) {
          deviations<T>(s, x + first + i * step, s.positions, T(0), a, b);
          sum += a;
        }
        const T mean = static_cast<T>(sum / n);
        for (int64_t i = 0; i < s.rows; ++i) {
          const int64_t at = first + i * step;
          deviations<T>(s, x + at, s.positions, mean, a, b);
          d_sum += a;
          square += b;
          grad_sums<T>(s, x + at, dy + at, nullptr, s.positions, mean, a, b);
          g_sum += a;
          g_product += b;
        }
        const double rstd = 1 / std::sqrt(variance(n, d_sum, square) + s.eps);
        const T scale = static_cast<T>(weight ? weight[k] * rstd : rstd);
        dweight[k] = static_cast<T>(g_product * rstd);
        dbias[k] = static_cast<T>(g_sum);
        for (int64_t i = 0; i < s.rows; ++i) {
          const int64_t at = first + i * step;
          grad_line<T>(s, x + at, dy + at, nullptr, dx + at, s.positions, mean,
                       static_cast<T>(g_sum / n), scale,
                       static_cast<T>(-rstd * rstd * g_product / n));
        }
      }
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "layer_norm_grad",
     .name = "rows",
     .accepts = accepts,
     .prepare = layer_norm_prepare,
     .run = layer_norm_run},
    {.op = "batch_norm_grad",
     .name = "channels",
     .accepts = accepts,
     .prepare = batch_norm_prepare,
     .run = batch_norm_run},
};

}  // namespace

std::span<const KernelDef> norm_grad() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
