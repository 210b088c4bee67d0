// SPDX-License-Identifier: Apache-2.0
// The inner loops of 3x3 convolutions of 8-bit integers by Winograd's algorithm, F(m x m, 3x3) with
// m = 2 or 4 (Lavin and Gray 2015, section 4.1), in integers. Fractions are avoided by scaling: the
// transformed weights are integers, and the output transform yields a multiple of y. All sums wrap
// around at 32 bits, so y is exact if that multiple's power of 2 times y fits 32 bits.
//
// Tiles of (m + 2)^2 inputs give m^2 outputs, neighbors are m apart, and tiles are numbered row by
// row. Two neighboring input channels are always side by side, as pairs of i16.
#pragma once

#include <cstdint>

#include "kernels/integer/integer_simd.h"

namespace hg::kernels {

// Tiles beyond the last one that the transforms may read and write, and bytes beyond a row.
inline constexpr int64_t kIntegerWinogradSlack = 64;

struct IntegerWinogradTable {
  int mr = 0;         // rows of products in registers
  int64_t tiles = 0;  // of a panel, which is two vectors of sums
  // to[j plane_step + tile] = the pair of even[m tile + j] and odd[m tile + j], for the m + 2
  // columns j of a row of tiles, after changing the bits `flip`, which makes the bytes i8.
  void (*split)(const uint8_t* even, const uint8_t* odd, uint8_t flip, int64_t tiles_x, int32_t* to,
                int64_t plane_step) = nullptr;
  // v = B^T d B of all tiles. Element (i, j) of tile t is at planes[((i mod m) (m + 2) + j)
  // plane_step + (i / m) tiles_x + t]. Element e of v is at to[e e_step + t / tiles panel_step + t
  // mod tiles].
  void (*input)(int64_t tiles, int64_t tiles_x, const int32_t* planes, int64_t plane_step,
                int32_t* to, int64_t e_step, int64_t panel_step) = nullptr;
  // sums[rows, columns] for rows <= mr, with a: [pairs, rows], panels: [pairs, tiles] each. Writes
  // whole vectors of sums.
  void (*products)(int rows, int64_t columns, int64_t pairs, const int32_t* a,
                   const int32_t* panels, int32_t* sums, int64_t sums_row) = nullptr;
  // y = A^T p A of all tiles, plus `add`, scaled and rounded to bytes with the first `scale`, `to`
  // and `zero` of f. Element e of p for tile t is products[e product_step + t]; row i of tile t
  // goes to m bytes from lines[i line_step + m t] on.
  void (*output)(int64_t tiles, const int32_t* products, int64_t product_step,
                 const IntegerFinish& f, uint8_t* lines, int64_t line_step) = nullptr;
};

// Null without AVX2, and where an instruction multiplies four bytes at a time.
const IntegerWinogradTable* integer_winograd_table(int m);

}  // namespace hg::kernels
