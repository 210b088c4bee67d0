// SPDX-License-Identifier: Apache-2.0
// The loops of optimizer steps, for each instruction set: plain loops that the compiler vectorizes,
// except square roots, for which the compiler would have to set errno.
#include "kernels/train/optimizer_simd.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/train/optimizer_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/quotient-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// x -= lr (g, or the momentum buffer)
template <class T>
void sgd(T* HWY_RESTRICT x, T* HWY_RESTRICT buffer, const T* HWY_RESTRICT g, int64_t count,
         const StepNumbers& n) {
  const T lr = static_cast<T>(n.lr), decay = static_cast<T>(n.weight_decay);
  const T momentum = static_cast<T>(n.beta1), part = static_cast<T>(n.beta2);
  if (buffer == nullptr) {
    for (int64_t i = 0; i < count; ++i) x[i] -= lr * (g[i] + decay * x[i]);
    return;
  }
  if (n.is_first) {
    for (int64_t i = 0; i < count; ++i) buffer[i] = g[i] + decay * x[i];
  } else {
    for (int64_t i = 0; i < count; ++i)
      buffer[i] = momentum * buffer[i] + part * (g[i] + decay * x[i]);
  }
  if (n.nesterov) {
    for (int64_t i = 0; i < count; ++i) x[i] -= lr * (g[i] + decay * x[i] + momentum * buffer[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) x[i] -= lr * buffer[i];
  }
}

// y[i] += step * numerator[i] / (sqrt(square[i]) * scale + eps)
template <class T>
void add_ratio(T* HWY_RESTRICT y, T shrink, T step, const T* HWY_RESTRICT numerator,
               const T* HWY_RESTRICT square, T scale, T eps, int64_t count) {
  int64_t i = 0;
  if constexpr (sizeof(T) == 4 || HWY_HAVE_FLOAT64) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes <= count; i += lanes) {
      const auto root =
          hn::Add(hn::Mul(root_of(hn::LoadU(d, square + i)), hn::Set(d, scale)), hn::Set(d, eps));
      const auto top = hn::Mul(hn::LoadU(d, numerator + i), hn::Set(d, step));
      const auto old = hn::Mul(hn::LoadU(d, y + i), hn::Set(d, shrink));
      hn::StoreU(hn::Add(old, quotient_of(top, root)), d, y + i);
    }
  }
  for (; i < count; ++i)
    y[i] = y[i] * shrink + numerator[i] * step / (std::sqrt(square[i]) * scale + eps);
}

template <class T>
void adam(T* HWY_RESTRICT x, T* HWY_RESTRICT mean, T* HWY_RESTRICT square, T* HWY_RESTRICT largest,
          const T* HWY_RESTRICT g, int64_t count, const StepNumbers& n) {
  const T part1 = static_cast<T>(1 - n.beta1), beta2 = static_cast<T>(n.beta2);
  const T part2 = static_cast<T>(1 - n.beta2), decay = static_cast<T>(n.weight_decay);
  for (int64_t i = 0; i < count; ++i) {
    const T gradient = g[i] + decay * x[i];
    mean[i] += part1 * (gradient - mean[i]);
    square[i] = beta2 * square[i] + part2 * gradient * gradient;
  }
  if (largest != nullptr)
    for (int64_t i = 0; i < count; ++i)
      largest[i] = square[i] > largest[i] ? square[i] : largest[i];
  add_ratio(x, static_cast<T>(n.shrink), static_cast<T>(-n.lr / n.correction1), mean,
            largest != nullptr ? largest : square, static_cast<T>(1 / n.root_correction2),
            static_cast<T>(n.eps), count);
}

template <class T>
void rmsprop(T* HWY_RESTRICT x, T* HWY_RESTRICT square, T* HWY_RESTRICT mean,
             T* HWY_RESTRICT buffer, const T* HWY_RESTRICT g, int64_t count, const StepNumbers& n) {
  constexpr int64_t kChunk = 256;
  const T alpha = static_cast<T>(n.beta1), part = static_cast<T>(1 - n.beta1);
  const T decay = static_cast<T>(n.weight_decay), momentum = static_cast<T>(n.beta2);
  T gradient[kChunk], var[kChunk];
  for (int64_t at = 0; at < count; at += kChunk) {
    const int64_t size = count - at < kChunk ? count - at : kChunk;
    for (int64_t i = 0; i < size; ++i) {
      gradient[i] = g[at + i] + decay * x[at + i];
      square[at + i] = alpha * square[at + i] + part * gradient[i] * gradient[i];
      var[i] = square[at + i];
    }
    if (mean != nullptr)
      for (int64_t i = 0; i < size; ++i) {
        mean[at + i] += part * (gradient[i] - mean[at + i]);
        var[i] -= mean[at + i] * mean[at + i];
      }
    const T lr = static_cast<T>(n.lr), eps = static_cast<T>(n.eps);
    if (buffer == nullptr) {
      add_ratio<T>(x + at, 1, -lr, gradient, var, 1, eps, size);
      continue;
    }
    add_ratio<T>(buffer + at, momentum, 1, gradient, var, 1, eps, size);
    for (int64_t i = 0; i < size; ++i) x[at + i] -= lr * buffer[at + i];
  }
}

constexpr OptimizerTable<float> kFloats = {sgd<float>, adam<float>, rmsprop<float>};
constexpr OptimizerTable<double> kDoubles = {sgd<double>, adam<double>, rmsprop<double>};

}  // namespace
}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {
const OptimizerTable<float>& optimizer_table(float) { return *HG_SIMD_CHOOSE(kFloats); }
const OptimizerTable<double>& optimizer_table(double) { return *HG_SIMD_CHOOSE(kDoubles); }
}  // namespace hg::kernels
#endif
