// SPDX-License-Identifier: Apache-2.0
// Sums of rows of f32 in f64, for every instruction set.
#pragma once

#include <cstdint>

namespace hg::kernels {

struct ReduceTable {
  // sums[k] += x[row step + k] for each of the rows, in order.
  void (*add_rows)(double* sums, const float* x, int64_t rows, int64_t step,
                   int64_t count) = nullptr;
};

const ReduceTable& reduce_table();

}  // namespace hg::kernels
