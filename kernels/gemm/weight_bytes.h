// SPDX-License-Identifier: Apache-2.0
// Weights of quantised models are f32 by the time that products read them, but no more than 256
// integers. Where reading them is what takes the time, they are packed in a byte each, exactly:
// the products are the same bits.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/gemm/gemv_simd.h"

namespace hg::kernels {

// Whether the elements of b[rows, columns], with these strides, are too many for a cache and
// integers within 255 of each other; the least of them. None is -0.0, which a byte does not tell
// from 0.
std::optional<float> least_of_bytes(const float* b, int64_t rows, int64_t columns, int64_t row,
                                    int64_t col);

// The byte of an integer that is so large or larger; of others, any.
inline uint8_t byte_of(float number, float least) {
  return static_cast<uint8_t>(static_cast<int32_t>(number - least));
}

}  // namespace hg::kernels
