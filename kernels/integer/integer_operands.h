// SPDX-License-Identifier: Apache-2.0
// Code shared by the kernels of matmul_integer and conv_integer: zero points, left operands as
// pairs, and how the inputs bias, scale and zero determine the result.
#pragma once

#include <string>
#include <vector>

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

// Rows of constant weights as quads of i8, less their zero points. What two neighbors have beyond
// kMostPair makes another quad at the same place, so that all sums are exact.
struct Quads {
  int64_t whole = 0;                 // quads of a row, but for those others
  std::vector<int32_t> again;        // places of those others, block after block
  std::vector<int64_t> at, more_at;  // by the first row of a block: its bytes, its places
  std::vector<int64_t> more;         // and how many these are
  int64_t bytes = 0;
};
// Of `groups` times `rows` rows [k], each group in blocks of its own.
Quads find_quads(int64_t groups, int64_t rows, int64_t k, const Tensor& weight,
                 const ZeroPoints& zeros, int mr);
void pack_quad_rows(const Quads& quads, int64_t groups, int64_t rows, int64_t k,
                    const Tensor& weight, const ZeroPoints& zeros, int mr, int8_t* to,
                    int32_t* sums);

// Of inputs 5 and 6, the scale and the zero point. The bias is the kernel's.
IntegerFinish integer_finish(const RunContext& c);

}  // namespace hg::kernels
