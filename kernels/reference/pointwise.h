// SPDX-License-Identifier: Apache-2.0
// Elementwise references: a function of doubles, applied to broadcast inputs.
#pragma once

#include "kernels/reference/reference.h"

namespace hg::reference {

// The element of `array` that broadcasting puts at row-major `index` of `shape`.
inline double broadcast_at(const Array& array, const Sizes& shape, int64_t index) {
  int64_t at = 0, step = 1;
  for (int d = shape.rank() - 1, k = array.shape.rank() - 1; k >= 0; --d, --k) {
    if (array.shape[k] != 1) at += index % shape[d] * step;
    index /= shape[d];
    step *= array.shape[k];
  }
  return array.at(at);
}

template <double (*f)(double)>
void unary(const Call& c) {
  for (int64_t i = 0; i < c.out[0].count(); ++i) c.out[0].at(i) = f(c.in[0].at(i));
}
template <double (*f)(double, const KernelAttrs&)>
void unary_with_attrs(const Call& c) {
  for (int64_t i = 0; i < c.out[0].count(); ++i) c.out[0].at(i) = f(c.in[0].at(i), c.attrs);
}
template <double (*f)(double, double)>
void binary(const Call& c) {
  const Sizes& shape = c.out[0].shape;
  for (int64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].at(i) = f(broadcast_at(c.in[0], shape, i), broadcast_at(c.in[1], shape, i));
}
template <double (*f)(double, double, double)>
void ternary(const Call& c) {
  const Sizes& shape = c.out[0].shape;
  for (int64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].at(i) = f(broadcast_at(c.in[0], shape, i), broadcast_at(c.in[1], shape, i),
                       broadcast_at(c.in[2], shape, i));
}

}  // namespace hg::reference
