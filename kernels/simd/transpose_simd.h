// SPDX-License-Identifier: Apache-2.0
// Transposed copies of elements of 8 and 32 bits, for every instruction set.
#pragma once

#include <cstdint>

namespace hg::kernels {

// Copies rows x columns elements. Rows are contiguous in `to`, columns in `from`; `from_columns`
// and `to_rows` are strides in elements.
template <class T>
using TransposeOf = void (*)(const T* from, int64_t from_columns, T* to, int64_t to_rows,
                             int64_t rows, int64_t columns);
using Transpose = TransposeOf<uint32_t>;
Transpose transpose_words();
TransposeOf<uint8_t> transpose_bytes();

}  // namespace hg::kernels
