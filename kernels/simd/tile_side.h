// SPDX-License-Identifier: Apache-2.0
// The size of the tiles that AMX multiplies (kernels/simd/amx-inl.h), for those who pack operands.
#pragma once

#include <cstdint>

namespace hg::kernels {

// A tile has as many rows as words of 32 bits in a row: quads of bytes, pairs of bf16, or sums.
inline constexpr int64_t kTileSide = 16;
// n, rounded up to whole tiles.
constexpr int64_t whole_tiles(int64_t n) { return (n + kTileSide - 1) / kTileSide * kTileSide; }

}  // namespace hg::kernels
