// SPDX-License-Identifier: Apache-2.0
// Copies of short rows of 32-bit elements, for every instruction set.
#pragma once

#include <cstdint>

namespace hg::kernels {

struct GatherTable {
  int64_t least = 0;  // elements of a row
  // `rows` rows of `n` elements, n >= least: contiguous in `to`, and `step` apart in `from`.
  void (*copy)(const uint32_t* from, int64_t step, int64_t rows, int64_t n, uint32_t* to) = nullptr;
  // The same of rows whose elements are all from[row step].
  void (*fill)(const uint32_t* from, int64_t step, int64_t rows, int64_t n, uint32_t* to) = nullptr;
};
const GatherTable& gather_table();

}  // namespace hg::kernels
