// SPDX-License-Identifier: Apache-2.0
// What the kernels of matmul_integer and conv_integer share: zero points, left sides as pairs, and
// what the inputs bias, scale and zero say of the result.
#pragma once

#include <string>

#include "hg/kernel.h"
#include "kernels/integer/integer_simd.h"

namespace hg::kernels {

// Zero points of u8 or i8: one number, or a list of them. None are 0.
struct ZeroPoints {
  const void* data = nullptr;
  bool is_signed = false;
  int64_t count = 0;

  int at(int64_t i) const {
    if (count == 0) return 0;
    const int64_t from = count == 1 ? 0 : i % count;
    return is_signed ? static_cast<const int8_t*>(data)[from]
                     : static_cast<const uint8_t*>(data)[from];
  }
};
inline ZeroPoints zero_points(const Tensor& t) {
  return {t.data, t.dtype == DType::i8, t.data == nullptr ? 0 : t.count()};
}
// What tells packs with different zero points apart.
std::string key_of(const ZeroPoints& zeros);

inline int64_t pairs_of(int64_t k) { return (k + 1) / 2; }

// Rows of bytes [rows, k], the first of them row `first` to its zero points, in the blocks that
// block_rows (kernels/gemm/tiles.h) makes of them: each [pairs, rows, 2] of i16, less the zero
// points. sums: of each row of these.
void pack_byte_rows(int64_t rows, int64_t k, const Tensor& from, int64_t first,
                    const ZeroPoints& zeros, int mr, int16_t* to, int32_t* sums);

// Of inputs 5 and 6, the scale and the zero point. The bias is the kernel's.
IntegerFinish integer_finish(const RunContext& c);

}  // namespace hg::kernels
