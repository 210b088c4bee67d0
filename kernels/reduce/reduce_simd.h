// SPDX-License-Identifier: Apache-2.0
// Sums of f32 in f64, and maxima and minima, for every instruction set.
#pragma once

#include <cstdint>

namespace hg::kernels {

// The sum or product of each of `n` rows of `count` elements, in 16 lanes: element i joins lane
// i mod 16. Then each lane of the first half joins one of the second half, until one lane is left.
template <class T>
using JoinRows = void (*)(const T* const* rows, int64_t n, int64_t count, double* results);

struct ReduceTable {
  // sums[k] += x[row step + k] for each of the rows, in order.
  void (*add_rows)(double* sums, const float* x, int64_t rows, int64_t step,
                   int64_t count) = nullptr;
  // lanes[i mod 16] += x[i]
  void (*add_lanes)(double* lanes, const float* x, int64_t count) = nullptr;
  JoinRows<float> add = nullptr, multiply = nullptr, add_squares = nullptr;
  // Null in small builds.
  JoinRows<double> add_doubles = nullptr, multiply_doubles = nullptr, add_double_squares = nullptr;
  // The largest and the smallest of count >= 1 elements; NaN if any element is NaN.
  float (*largest)(const float* x, int64_t count) = nullptr;
  float (*smallest)(const float* x, int64_t count) = nullptr;
  double (*largest_double)(const double* x, int64_t count) = nullptr;
  double (*smallest_double)(const double* x, int64_t count) = nullptr;
  // best[k] becomes the larger (smaller) of itself and x[k], or NaN if one is NaN.
  void (*larger)(float* best, const float* x, int64_t count) = nullptr;
  void (*smaller)(float* best, const float* x, int64_t count) = nullptr;
};

const ReduceTable& reduce_table();

}  // namespace hg::kernels
