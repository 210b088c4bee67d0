// SPDX-License-Identifier: Apache-2.0
// The inner loops of 8-bit integer products: y[m, n] = a[m, k] b[k, n] with sums in i32. Two
// neighbors along k are multiplied and added at a time. a has them as pairs of i16 minus the zero
// point, b as pairs of bytes (u8 minus 128). If the weights allow it, both use quads of bytes. No
// sum saturates, so every division of a product gives the same bits.
#pragma once

#include <cstdint>

#include "hg/tensor.h"
#include "kernels/saves_code.h"
#include "kernels/simd/row_product.h"
#include "kernels/simd/tile_side.h"

namespace hg::kernels {

// How sums become results, after adding the given terms; pointers refer to the first row and
// column.
struct IntegerFinish {
  const int32_t* row_add = nullptr;     // one per row,
  int32_t add = 0;                      // or one for all
  const int32_t* column_add = nullptr;  // one per column
  const int32_t* row_factor = nullptr;  // times column_factor
  const int32_t* column_factor = nullptr;
  const float* scale = nullptr;  // null: y is i32
  bool scale_by_row = false, scale_by_column = false;
  // Of row_add, of scale and of y, if the rows are not in order.
  const int32_t* row = nullptr;
  int64_t row_at(int64_t i) const { return !kSavesCode && row ? row[i] : i; }
  DType to = DType::i32;
  float zero = 0;  // of an 8-bit result
};

// Where quads are.
struct QuadPlaces {
  int64_t whole = 0, more = 0;
  const int32_t* offset = nullptr;  // of the places
  const int32_t* index = nullptr;   // [more], or offsets [more, rows]
  // What tiles bring to the second-level cache meanwhile.
  const void* next = nullptr;
  int64_t next_bytes = 0;
};

// A depthwise convolution of bytes: in each line, y[j] = the sum over t of the four bytes
// x[offset[t] + step j ...] times those of weights[t], plus `add`, scaled and rounded to bytes.
struct DepthwiseBytes {
  int taps = 0;
  const int32_t* offset = nullptr;   // [taps]
  const int32_t* weights = nullptr;  // [taps], 4 of i8 each
  const uint8_t* x = nullptr;        // may be read up to kDepthwiseSlack bytes beyond
  int64_t step = 1;                  // or 2
  int64_t lines = 1, x_line = 0;
  int64_t count = 0;  // of results of a line
  uint8_t* y = nullptr;
  int64_t y_line = 0;
};

// Lines of bytes, with `flip` added without carries. Whole vectors are read before from_end and
// written before to_end; the excess() bytes that they write beyond a line are `fill`.
struct ByteLines {
  static constexpr int64_t kShort = 16, kLong = 64;  // bytes of a vector
  int64_t excess() const {
    const int64_t vector = bytes <= kShort ? kShort : kLong;
    return (vector - bytes % vector) % vector;
  }

  int64_t count = 0, bytes = 0;
  const uint8_t* from = nullptr;
  int64_t from_step = 0;
  const uint8_t* from_end = nullptr;
  uint8_t flip = 0, fill = 0;
  uint8_t* to = nullptr;
  int64_t to_step = 0;
  uint8_t* to_end = nullptr;
};

// Where quad q of row r is in a block of rows, and the bytes of the block: [quads / side, rows,
// side, 4], with both sizes rounded up to multiples of `side`, a power of 2. Missing quads are
// zeros.
class QuadRows {
 public:
  QuadRows(int64_t count, int64_t side) : less_(side - 1), rows_(whole(count)) {
    while (side >> shift_ > 1) ++shift_;
  }
  int64_t rows() const { return rows_; }
  int64_t at(int64_t quad, int64_t row) const {
    return ((((quad >> shift_) * rows_ + row) << shift_) + (quad & less_)) * 4;
  }
  int64_t bytes(int64_t quads) const { return whole(quads) * rows_ * 4; }

 private:
  int64_t whole(int64_t n) const { return (n + less_) & ~less_; }

  int64_t less_, rows_;
  int shift_ = 0;
};

// A product of rows of bytes where they lie with columns of i8, four to a word.
struct ByteRows : RowProduct {
  bool is_signed = false;  // x is i8, otherwise u8
};

struct IntegerTable {
  int mr = 0, nr = 0;  // rows and columns of sums in registers; nr is two vectors
  // Where they are not null, a thread calls these before and after any sums of quads.
  void (*begin_tiles)() = nullptr;
  void (*end_tiles)() = nullptr;
  // sums[rows, columns] for rows <= mr. a: [pairs, rows, 2]; panels: [pairs, nr, 2] each. Writes
  // sums of whole panels.
  void (*sums)(int rows, int64_t columns, int64_t pairs, const int16_t* a, const int8_t* panels,
               int32_t* sums, int64_t sums_row) = nullptr;
  // y[rows, columns] from sums, whose rows may be read up to a whole vector; y_row counts elements.
  void (*finish)(int64_t rows, int64_t columns, const int32_t* sums, int64_t sums_row,
                 const IntegerFinish& f, void* y, int64_t y_row) = nullptr;
  // Packs two rows of b as pairs into the panels that begin at `to`, panel_step bytes apart. flip:
  // 128 for u8, else 0.
  void (*pack)(int64_t columns, const uint8_t* even, const uint8_t* odd, uint8_t flip, int8_t* to,
               int64_t panel_step) = nullptr;
  // Four neighbors along k at a time: bytes of b, as i8 if signed_quads, else as i8 plus 128, times
  // i8. No sum saturates if neighboring weights of the same sign add up to at most most_pair in
  // magnitude. Null if no instruction supports this. a: QuadRows of `side`. x: nr columns of 4
  // bytes for each quad, offset[quad] columns after the first; the next nr columns follow after
  // `x_step` bytes. Quads after the first `whole` ones read the places that `index` names again.
  // With in_tiles, sums are computed in tiles (AMX): the panels of x hold their quads in order,
  // without offsets, up to a multiple of kTileSide. With places_by_row, `index` has an offset for
  // each row.
  bool signed_quads = false, in_tiles = false, places_by_row = false;
  int64_t side = 1;  // of tiles, or of squares of sums
  int most_pair = 0;
  void (*quad_sums)(int rows, int64_t columns, const QuadPlaces& places, const int8_t* a,
                    const uint8_t* x, int64_t x_step, int32_t* sums, int64_t sums_row) = nullptr;
  // The same, from sums to bytes: with the row_add, the scale (of all rows or by row), `to` and
  // `zero` of f.
  void (*quad_bytes)(int rows, int64_t columns, const QuadPlaces& places, const int8_t* a,
                     const uint8_t* x, int64_t x_step, const IntegerFinish& f, uint8_t* y,
                     int64_t y_row) = nullptr;
  // Sums of at most most_few columns, whose vectors would be nearly empty. They follow `x` in their
  // panel. Reads three more columns, and kFewSlack bytes beyond a.
  int most_few = 0;
  void (*quad_few)(int rows, int few, const QuadPlaces& places, const int8_t* a, const uint8_t* x,
                   int32_t* sums, int64_t sums_row) = nullptr;
  // With the column_add, the scale (of all columns or by column), `to` and `zero` of f. No sum
  // saturates. Null in small builds.
  void (*byte_rows)(const ByteRows& r, const IntegerFinish& f) = nullptr;
  // What byte_rows adds to x before it multiplies, for u8 and for i8.
  int more_u8 = 0, more_i8 = 0;
  // Packs four rows of b as quads into panels. flip: 128 turns i8 into u8 and u8 into i8, else 0.
  void (*pack_quads)(int64_t columns, const uint8_t* const* rows, uint8_t flip, uint8_t* to,
                     int64_t panel_step) = nullptr;
  // Rows of bytes, one after the other, as i16 minus their zero point, `step` elements apart. Reads
  // at most `readable` bytes. May write zeros beyond a row, up to kDepthwiseSlack.
  void (*widen)(int64_t rows, int64_t count, int64_t readable, const uint8_t* from, bool is_signed,
                int16_t zero, int16_t* to, int64_t step) = nullptr;
  // sums[j] = sum over t of the pair weights[t] times x[offset[t] + step j] and the next element,
  // for a step of 1 or 2. Reads x and writes sums up to kDepthwiseSlack elements beyond.
  void (*depthwise)(int taps, const int64_t* offset, const int32_t* weights, const int16_t* x,
                    int64_t step, int64_t count, int32_t* sums) = nullptr;
  // The same, from sums to bytes, with the `add`, the first `scale`, `to` and `zero` of f. Null
  // without AVX2.
  void (*depthwise_rounded)(int taps, const int64_t* offset, const int32_t* weights,
                            const int16_t* x, int64_t step, int64_t count, const IntegerFinish& f,
                            uint8_t* y) = nullptr;
  // With the `add`, the first `scale`, `to` and `zero` of f. Null without AVX-512 VNNI, as is
  // copy_lines.
  void (*depthwise_bytes)(const DepthwiseBytes& p, const IntegerFinish& f) = nullptr;
  void (*copy_lines)(const ByteLines& lines) = nullptr;
};
inline constexpr int64_t kDepthwiseSlack = 160;
inline constexpr int64_t kFewSlack = 32;
inline constexpr int64_t kLeastTileQuads = 8;
inline constexpr int kMostWeight = 128;  // magnitude of a weight in a quad

const IntegerTable& integer_table();
// Without tiles and squares of sums, which multiply only quads, and at least kLeastTileQuads of a
// row in less time.
const IntegerTable& integer_table_of_quads();

// During its lifetime, the thread may compute sums of quads.
class QuadScope {
 public:
  explicit QuadScope(const IntegerTable& table) : table_(table) {
    if (table_.begin_tiles) table_.begin_tiles();
  }
  ~QuadScope() {
    if (table_.end_tiles) table_.end_tiles();
  }
  QuadScope(const QuadScope&) = delete;
  QuadScope& operator=(const QuadScope&) = delete;

 private:
  const IntegerTable& table_;
};

}  // namespace hg::kernels
