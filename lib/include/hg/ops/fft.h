// SPDX-License-Identifier: Apache-2.0
// Builder for lib/ops/fft.cpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "hg/graph.h"

namespace hg {

// Divisor of the sums of fft: 1, the number of elements, or its square root.
enum class FftNorm : uint8_t { none, n, sqrt };
std::string_view to_string(FftNorm word);
Result<FftNorm> parse_fft_norm(std::string_view name);

// y_k = sum_j x_j e^(-2 pi i j k / n) along dim, where n is its size; e^(+...) if inverse. x is f32
// or f64 with real and imaginary parts in its last dim of size 2, as view_as_real returns. The sums
// are divided as `norm` says.
inline Value fft(const Value& x, int dim, bool inverse = false, FftNorm norm = FftNorm::none) {
  return x.graph()->call("fft", {x}, {{"dim", dim}, {"inverse", inverse}, {"norm", norm}});
}

}  // namespace hg
