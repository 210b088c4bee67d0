// SPDX-License-Identifier: Apache-2.0
// Sums of f32 in f64, and maxima and minima, for every instruction set.
#pragma once

#include <cstdint>

namespace hg::kernels {

struct ReduceTable {
  // sums[k] += x[row step + k] for each of the rows, in order.
  void (*add_rows)(double* sums, const float* x, int64_t rows, int64_t step,
                   int64_t count) = nullptr;
  // lanes[i mod 16] += x[i]
  void (*add_lanes)(double* lanes, const float* x, int64_t count) = nullptr;
  // The same starting with zeros, then the sum of the lanes: each lane of the first half adds one
  // of the second half, until one lane is left.
  double (*add_run)(const float* x, int64_t count) = nullptr;
  // As add_run for two rows.
  void (*add_two_runs)(const float* const* rows, int64_t count, double* sums) = nullptr;
  // As add_run, with products that start with ones.
  double (*multiply_run)(const float* x, int64_t count) = nullptr;
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
