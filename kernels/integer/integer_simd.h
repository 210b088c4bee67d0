// SPDX-License-Identifier: Apache-2.0
// The inner loops of 8-bit integer products: y[m, n] = a[m, k] b[k, n] with sums in i32. Two
// neighbors along k are multiplied and added at a time. a has them as pairs of i16 minus the zero
// point, b as pairs of bytes (u8 minus 128); if the weights allow it, both are quads of bytes. No
// sum saturates, so every division of a product gives the same bits.
#pragma once

#include <cstdint>

#include "hg/tensor.h"

namespace hg::kernels {

// What becomes of sums, to which is added what is given; pointers are at the first row and column.
struct IntegerFinish {
  const int32_t* row_add = nullptr;     // one for each row,
  int32_t add = 0;                      // or one for all
  const int32_t* column_add = nullptr;  // one for each column
  const int32_t* row_factor = nullptr;  // times column_factor
  const int32_t* column_factor = nullptr;
  const float* scale = nullptr;  // none: y is i32
  bool scale_by_row = false, scale_by_column = false;
  DType to = DType::i32;
  float zero = 0;  // of 8 bits
};

struct IntegerTable {
  int mr = 0, nr = 0;  // rows and columns of sums that registers hold: nr is two vectors
  // sums[rows, columns] for rows <= mr. a: [pairs, rows, 2], panels: [pairs, nr, 2] each. Sums
  // of whole panels are written.
  void (*sums)(int rows, int64_t columns, int64_t pairs, const int16_t* a, const int8_t* panels,
               int32_t* sums, int64_t sums_row) = nullptr;
  // y[rows, columns] of sums, whose rows may be read up to a whole vector; y_row counts elements.
  void (*finish)(int64_t rows, int64_t columns, const int32_t* sums, int64_t sums_row,
                 const IntegerFinish& f, void* y, int64_t y_row) = nullptr;
  // Two rows of b become pairs in the panels that begin at `to`, panel_step bytes apart. flip: 128
  // for u8, else 0.
  void (*pack)(int64_t columns, const uint8_t* even, const uint8_t* odd, uint8_t flip, int8_t* to,
               int64_t panel_step) = nullptr;
  // Four neighbors along k at a time: bytes of b, i8 plus 128, times i8, which are added in pairs
  // of i16. None saturates where the magnitudes of two weights that are neighbors add up to at
  // most kMostPair. Null where no instruction does so. a: [quads, rows, 4], panels: [whole, nr, 4]
  // each; quads beyond the `whole` first ones meet those that `index` names again.
  void (*quad_sums)(int rows, int64_t columns, int64_t whole, int64_t more, const int32_t* index,
                    const int8_t* a, const uint8_t* panels, int32_t* sums,
                    int64_t sums_row) = nullptr;
  // Four rows of b become quads in panels. flip: 128 for i8, else 0.
  void (*pack_quads)(int64_t columns, const uint8_t* const* rows, uint8_t flip, uint8_t* to,
                     int64_t panel_step) = nullptr;
  // Bytes as i16, less their zero point, `readable` of which may be read. Zeros are written
  // beyond, up to kDepthwiseSlack.
  void (*widen)(int64_t count, int64_t readable, const uint8_t* from, bool is_signed, int16_t zero,
                int16_t* to) = nullptr;
  // sums[j] = sum over t of the pair weights[t] times x[offset[t] + step j] and the one behind it,
  // for a step of 1 or 2. x is read and sums are written up to kDepthwiseSlack elements beyond.
  void (*depthwise)(int taps, const int64_t* offset, const int32_t* weights, const int16_t* x,
                    int64_t step, int64_t count, int32_t* sums) = nullptr;
};
inline constexpr int64_t kDepthwiseSlack = 160;
inline constexpr int kMostPair = 128;

const IntegerTable& integer_table();

}  // namespace hg::kernels
