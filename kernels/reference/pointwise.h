// SPDX-License-Identifier: Apache-2.0
// Elementwise references: a function of doubles, applied to broadcast inputs.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "kernels/reference/reference.h"

namespace hg::reference {

// The elements of `array` after broadcasting it to `shape`, in row-major order.
class Broadcast {
 public:
  Broadcast(const Array& array, const Sizes& shape)
      : array_(array), shape_(shape), is_whole_(array.count() == shape.count()) {}
  double at(int64_t index) const {
    if (is_whole_) return array_.at(index);
    int64_t at = 0, step = 1;
    for (int d = shape_.rank() - 1, k = array_.shape.rank() - 1; k >= 0; --d, --k) {
      if (array_.shape[k] != 1) at += index % shape_[d] * step;
      index /= shape_[d];
      step *= array_.shape[k];
    }
    return array_.at(at);
  }

 private:
  const Array& array_;
  const Sizes& shape_;
  bool is_whole_;
};

// The broadcast shape of these shapes.
inline Sizes common_shape(std::initializer_list<Sizes> shapes) {
  int rank = 0;
  for (const Sizes& shape : shapes) rank = std::max(rank, shape.rank());
  Sizes common(rank, 1);
  for (const Sizes& shape : shapes)
    for (int d = 1; d <= shape.rank(); ++d)
      if (shape[shape.rank() - d] != 1) common[rank - d] = shape[shape.rank() - d];
  return common;
}

// Element `k` of line `line` along `dim`; lines are numbered in row-major order of the other dims.
inline int64_t along(const Sizes& shape, int dim, int64_t line, int64_t k) {
  int64_t stride = 1;
  for (int d = dim + 1; d < shape.rank(); ++d) stride *= shape[d];
  return (line / stride * shape[dim] + k) * stride + line % stride;
}

// The p-norm. p = 0: the number of nonzero elements; infinite p: the largest magnitude.
inline double p_norm(const std::vector<double>& x, double p) {
  double sum = 0, most = 0;
  for (double value : x) {
    sum += p == 0 ? double(value != 0) : std::pow(std::abs(value), p);
    most = std::max(most, std::abs(value));
  }
  return std::isinf(p) ? most : p == 0 ? sum : std::pow(sum, 1 / p);
}

template <double (*f)(double)>
void unary_loop(const Call& c) {
  for (int64_t i = 0; i < c.out[0].count(); ++i) c.out[0].at(i) = f(c.in[0].at(i));
}
template <double (*f)(double, const KernelAttrs&)>
void unary_loop_with_attrs(const Call& c) {
  for (int64_t i = 0; i < c.out[0].count(); ++i) c.out[0].at(i) = f(c.in[0].at(i), c.attrs);
}
template <double (*f)(double, double)>
void binary_loop(const Call& c) {
  const Broadcast a(c.in[0], c.out[0].shape), b(c.in[1], c.out[0].shape);
  for (int64_t i = 0; i < c.out[0].count(); ++i) c.out[0].at(i) = f(a.at(i), b.at(i));
}
template <double (*f)(double, double, double)>
void ternary_loop(const Call& c) {
  const Sizes& shape = c.out[0].shape;
  const Broadcast a(c.in[0], shape), b(c.in[1], shape), w(c.in[2], shape);
  for (int64_t i = 0; i < c.out[0].count(); ++i) c.out[0].at(i) = f(a.at(i), b.at(i), w.at(i));
}

}  // namespace hg::reference
