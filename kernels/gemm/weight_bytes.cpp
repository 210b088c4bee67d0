// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/weight_bytes.h"

#include <algorithm>
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
    bool fits = true;
    for (int64_t j = 0; j < columns; ++j) {
      const float number = b[i * row + j * col];
      fits = fits && std::abs(number) <= kMost && number == std::trunc(number) &&
             (number != 0 || !std::signbit(number));
      least = std::min(least, number);
      most = std::max(most, number);
    }
    if (!fits || most - least > 255) return {};
  }
  return least;
}

}  // namespace hg::kernels
