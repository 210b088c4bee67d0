// SPDX-License-Identifier: Apache-2.0
// The inner loops of matrix products in f32: y[m, n] = a[m, k] b[k, n]. b is read in panels of `nr`
// columns, each [k, nr] and zero-padded; a has any strides. gemm_simd.cpp implements them for every
// instruction set, gemm.cpp contains the loops around them, and tiles.h divides the work.
#pragma once

#include <cstdint>

#include "hg/kernel.h"
#include "kernels/pointwise/activation.h"
#include "kernels/simd/row_product.h"
#include "kernels/simd/tile_side.h"

namespace hg::kernels {

// Applied to a finished block of y before it is stored; pointers refer to the block.
struct Epilogue {
  Activation activation = Activation::none;
  const float* row_bias = nullptr;     // one per row of y
  const float* column_bias = nullptr;  // one per column
  const float* residual = nullptr;     // like y, with the same distance between rows
  bool empty() const {
    return activation == Activation::none && !row_bias && !column_bias && !residual;
  }
  // Of the block that begins at (row, column) of this one.
  Epilogue at(int64_t row, int64_t column, int64_t y_row) const {
    Epilogue e = *this;
    if (row_bias) e.row_bias += row;
    if (column_bias) e.column_bias += column;
    if (residual) e.residual += row * y_row + column;
    return e;
  }
};

// One block of y, rows <= mr: y[rows, columns] (+)= a[rows, k] b, then the epilogue, if any. A
// block whose sum is not complete has no epilogue.
struct Block {
  int rows = 0;
  int64_t k = 0;
  const float* a = nullptr;
  int64_t a_row = 0, a_col = 0;
  float* y = nullptr;
  int64_t y_row = 0;
  bool add = false;
  const Epilogue* epilogue = nullptr;  // pointers at the block
  bool is_far = false;                 // y and the residual are larger than a cache
};

// Two vectors of columns at any positions. Row p of b is read at x[v] + offset[p], in whole
// vectors. Column 0 of vector v is column at[v] of y, and `valid` columns are stored.
struct Columns {
  int vectors = 0;
  const float* x[2] = {};
  int64_t at[2] = {};
  int valid[2] = {};
  int shared = 0;  // number of first columns of vector 1 that also belong to vector 0
};

// A block of rows with all panels of b: y[rows, columns] (+)= a[rows, k] b[k, columns].
struct Sweep {
  int64_t rows = 0, columns = 0, k = 0;
  // Rows from the first one to the end of a, which determine the sizes of the blocks.
  int64_t left = 0;
  const float* a = nullptr;
  bool is_packed = false;  // a is the result of pack_rows; otherwise it has these strides
  int64_t a_row = 0, a_col = 0;
  const float* panels = nullptr;
  int64_t panel_step = 0;    // distance between panels
  bool near_panels = false;  // they are in a cache: the sweep does not prefetch them
  float* y = nullptr;
  int64_t y_row = 0;
  bool add = false;
  const Epilogue* epilogue = nullptr;  // pointers to the first element
  // What the next sweep reads from memory, which the last panel of this one prefetches: rows of b,
  // `next_step` bytes apart.
  const char* next = nullptr;
  int64_t next_rows = 0, next_bytes = 0, next_step = 0;
};

struct GemmTable {
  int mr = 0, nr = 0;  // rows and columns of y in registers; nr is two vectors
  // b is a panel; columns <= nr.
  void (*block)(const Block& block, int columns, const float* panel) = nullptr;
  void (*sweep)(const Sweep& sweep) = nullptr;
  // column_bias is not supported here.
  void (*gather)(const Block& block, const Columns& columns, const int64_t* offset) = nullptr;
  void (*finish)(int64_t rows, int64_t columns, const Epilogue& e, float* y,
                 int64_t y_row) = nullptr;
  // Copies b[k, columns] (strides b_row, b_col) into panels that start panel_step elements apart.
  void (*pack)(int64_t k, int64_t columns, const float* b, int64_t b_row, int64_t b_col, float* to,
               int64_t panel_step) = nullptr;
  // As the function pack_rows, for a contiguous along k; writes up to 3 floats beyond the end.
  void (*pack_rows)(int64_t rows, int64_t k, const float* a, int64_t a_row, float* to) = nullptr;
  // Copies one row of b into row 0 of its panels. Missing columns of the last panel become 0.
  void (*spread)(int64_t columns, const float* row, float* to, int64_t panel_step) = nullptr;
};

const GemmTable& gemm_table();

// A product with planes, each with lines of `pitch` columns, of which y has the first `width`: row
// p of step t of b is read at x + offset[t] + p * plane, 16 rows in a step. Columns are counted in
// a plane; `first` is a multiple of 16, as is the pitch. x begins with column 0 of y.
struct PlaneSweep {
  Sweep product;  // of `columns` columns; without panels; y begins with column 0
  const float* x = nullptr;
  int64_t plane = 0, first = 0, pitch = 0, width = 0;
  const int64_t* offset = nullptr;  // [k / 16]
};

// Of a RowProduct of bf16; pointers are to column 0 of its y. The residual and y are f32 or bf16.
struct RowEpilogue {
  Activation activation = Activation::none;
  const float* bias = nullptr;
  const void* residual = nullptr;  // like y
  DType residual_dtype = DType::f32, to = DType::f32;
};

// Products of bf16 with sums in f32. A pair is two neighbors along k, in the bits of a float; if k
// is odd, the last one ends with 0. `gemm` packs and multiplies pairs: its k counts them. It has no
// gather. Numbers and sums below 2^-126 count as 0.
struct PairTable {
  GemmTable gemm;
  // Rounds two rows of b into a row of pairs, and copies it like gemm.spread. No `odd` row: zeros.
  void (*spread)(int64_t columns, const float* even, const float* odd, float* to,
                 int64_t panel_step) = nullptr;
  // Products in tiles of 16 rows and 16 pairs (AMX), only in sweeps: k is a multiple of 16. Rows of
  // a are contiguous, at multiples of 64 bytes; or packed, each block as [k / 16, rows, 16]. Blocks
  // are read up to whole_tiles().
  bool in_tiles = false;
  void (*sweep_planes)(const PlaneSweep& sweep) = nullptr;  // likewise
  void (*rows)(const RowProduct& r, const RowEpilogue& e) = nullptr;
  void (*round)(int64_t count, const float* from, BFloat16* to) = nullptr;

  int64_t pairs_of(int64_t k) const {
    const int64_t each = in_tiles ? 2 * kTileSide : 2;
    return (k + each - 1) / each * each / 2;
  }
};
inline int64_t pairs_of(int64_t k) { return (k + 1) / 2; }

// k numbers, `step` apart, as pairs, followed by zeros up to `count` pairs.
void round_to_pairs(int64_t k, const float* row, int64_t step, int64_t count, float* pairs);

// Null if the processor has no instruction for them.
const PairTable* pair_table();
const PairTable* tile_pair_table();

}  // namespace hg::kernels
