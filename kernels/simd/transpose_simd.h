// SPDX-License-Identifier: Apache-2.0
// Transposed copies of 32-bit elements, for every instruction set.
#pragma once

#include <cstdint>

namespace hg::kernels {

// Copies rows x columns elements. Rows are contiguous in `to`, columns in `from`; `from_columns`
// and `to_rows` are strides in elements.
using Transpose = void (*)(const uint32_t* from, int64_t from_columns, uint32_t* to,
                           int64_t to_rows, int64_t rows, int64_t columns);
Transpose transpose_words();

}  // namespace hg::kernels
