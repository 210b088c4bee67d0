// SPDX-License-Identifier: Apache-2.0
// Enums for string attributes of ops, and the flags of tree_leaves. to_string() returns the string;
// parse_...() parses it, and fails with invalid_argument for unknown names.
#pragma once

#include <cstdint>
#include <string_view>

#include "hg/activation.h"
#include "hg/status.h"

namespace hg {

// Reduction of a loss: none (elementwise), mean, or sum.
enum class Reduction : uint8_t { none, mean, sum };
std::string_view to_string(Reduction word);
Result<Reduction> parse_reduction(std::string_view name);

// Values outside the bounds of a tensor.
enum class PadMode : uint8_t { constant, reflect, replicate, circular };
std::string_view to_string(PadMode word);
Result<PadMode> parse_pad_mode(std::string_view name);

// How several values scattered to one element combine. none: one of them is kept.
enum class ScatterReduce : uint8_t { none, add, prod, amax, amin, mean };
std::string_view to_string(ScatterReduce word);
Result<ScatterReduce> parse_scatter_reduce(std::string_view name);

enum class GeluApproximation : uint8_t { none, tanh };
std::string_view to_string(GeluApproximation word);
Result<GeluApproximation> parse_gelu_approximation(std::string_view name);

// linear for [n, c, w], bilinear and bicubic for [n, c, h, w], trilinear for [n, c, d, h, w];
// nearest for all.
enum class Interpolation : uint8_t { nearest, nearest_exact, linear, bilinear, trilinear, bicubic };
std::string_view to_string(Interpolation word);  // "nearest-exact"
Result<Interpolation> parse_interpolation(std::string_view name);

// Values that grid_sample reads outside the image.
enum class GridPadding : uint8_t { zeros, border, reflection };
std::string_view to_string(GridPadding word);
Result<GridPadding> parse_grid_padding(std::string_view name);

// Divisor of the sums of fft: 1, the number of elements, or its square root.
enum class FftNorm : uint8_t { none, n, sqrt };
std::string_view to_string(FftNorm word);
Result<FftNorm> parse_fft_norm(std::string_view name);

// Polynomials of op `polynomial`.
enum class PolynomialKind : uint8_t {
  chebyshev_t,
  chebyshev_u,
  chebyshev_v,
  chebyshev_w,
  shifted_chebyshev_t,
  shifted_chebyshev_u,
  shifted_chebyshev_v,
  shifted_chebyshev_w,
  hermite_h,
  hermite_he,
  laguerre_l,
  legendre_p,
};
std::string_view to_string(PolynomialKind word);
Result<PolynomialKind> parse_polynomial_kind(std::string_view name);

// The test of a decision node on its feature x: any sum of these. If x or split is NaN, no
// comparison is true.
enum TreeTest : int32_t {
  kTreeNan = 1,
  kTreeGreater = 2,  // x > split
  kTreeLess = 4,     // x < split
  kTreeEqual = 8,    // x == split
};

}  // namespace hg
