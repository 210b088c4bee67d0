// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/weight_bytes.h"

#include <bit>
#include <cmath>
#include <utility>

#include "kernels/blocking.h"

namespace hg::kernels {

std::optional<float> least_of_bytes(const float* b, int64_t rows, int64_t columns, int64_t row,
                                    int64_t col) {
  constexpr float kMost = 1 << 20;
  if (gemv_table().dots_bytes == nullptr || rows * columns <= kSecondCacheFloats) return {};
  if (row < col) {  // as they lie in memory
    std::swap(rows, columns);
    std::swap(row, col);
  }
  float least = b[0], most = b[0];
  for (int64_t i = 0; i < rows; ++i) {
    // Without a branch, so that it is vectorised where elements lie side by side.
    uint32_t differ = 0;
    const auto look = [&](float number) {
      const float near = std::abs(number) <= kMost ? number : 0.5f;
      const auto whole = static_cast<float>(static_cast<int32_t>(near));
      differ |= std::bit_cast<uint32_t>(whole) ^ std::bit_cast<uint32_t>(near);
      least = near < least ? near : least;
      most = near > most ? near : most;
    };
    const float* const line = b + i * row;
    if (col == 1)
      for (int64_t j = 0; j < columns; ++j) look(line[j]);
    else
      for (int64_t j = 0; j < columns; ++j) look(line[j * col]);
    if (differ != 0 || most - least > 255) return {};
  }
  return least;
}

}  // namespace hg::kernels
