// SPDX-License-Identifier: Apache-2.0
// quantized_linear with Precision::i8: x is rounded to 8-bit integers, 32 neighbors with a scale,
// and multiplied by the levels as integers. A few rows of x read the levels as they lie. For more
// rows, levels are unpacked into panels of bytes, which stay in the cache.
#pragma once

#include <cstdint>

#include "hg/kernel.h"
#include "kernels/low_bits/rounded_simd.h"

namespace hg::kernels {

// A row of x: integers, and a scale per kRoundedBytes of them. After the last integer are zeros, up
// to a whole block.
struct RoundedRow {
  int8_t* integers;
  float* scales;

  float number(int64_t i) const {
    return scales[i / kRoundedBytes] * static_cast<float>(integers[i]);
  }
};

// Bytes of a row.
int64_t rounded_bytes(int64_t k);
// Rounds row i of x, of k elements, into its part of `memory`.
RoundedRow rounded_row(const RunContext& c, int64_t k, int64_t i, char* memory);

bool takes_rounded_rows(const PrepareContext& c);
Status prepare_rounded_rows(PrepareContext& c);
void run_rounded_rows(const RunContext& c) noexcept;

bool takes_rounded_tiles(const PrepareContext& c);
Status prepare_rounded_tiles(PrepareContext& c);
void run_rounded_tiles(const RunContext& c) noexcept;

}  // namespace hg::kernels
