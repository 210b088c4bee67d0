// SPDX-License-Identifier: Apache-2.0
// Names of the enums in hg/words.h.
#include "hg/words.h"

#include "lib/graph/word_table.h"

namespace hg {
namespace {

constexpr std::string_view kReductions[] = {"none", "mean", "sum"};
constexpr std::string_view kPadModes[] = {"constant", "reflect", "replicate", "circular"};
constexpr std::string_view kScatterReduces[] = {"none", "add", "prod", "amax", "amin", "mean"};
constexpr std::string_view kGeluApproximations[] = {"none", "tanh"};
constexpr std::string_view kInterpolations[] = {"nearest",  "nearest-exact", "linear",
                                                "bilinear", "trilinear",     "bicubic"};
constexpr std::string_view kGridPaddings[] = {"zeros", "border", "reflection"};
constexpr std::string_view kFftNorms[] = {"none", "n", "sqrt"};
constexpr std::string_view kPolynomialKinds[] = {
    "chebyshev_t",         "chebyshev_u",         "chebyshev_v",         "chebyshev_w",
    "shifted_chebyshev_t", "shifted_chebyshev_u", "shifted_chebyshev_v", "shifted_chebyshev_w",
    "hermite_h",           "hermite_he",          "laguerre_l",          "legendre_p"};

}  // namespace

std::string_view to_string(Reduction word) { return word_name(kReductions, word); }
Result<Reduction> parse_reduction(std::string_view name) {
  return parse_word<Reduction>(kReductions, "reduction", name);
}

std::string_view to_string(PadMode word) { return word_name(kPadModes, word); }
Result<PadMode> parse_pad_mode(std::string_view name) {
  return parse_word<PadMode>(kPadModes, "mode of padding", name);
}

std::string_view to_string(ScatterReduce word) { return word_name(kScatterReduces, word); }
Result<ScatterReduce> parse_scatter_reduce(std::string_view name) {
  return parse_word<ScatterReduce>(kScatterReduces, "reduction of scatter", name);
}

std::string_view to_string(GeluApproximation word) { return word_name(kGeluApproximations, word); }
Result<GeluApproximation> parse_gelu_approximation(std::string_view name) {
  return parse_word<GeluApproximation>(kGeluApproximations, "approximation of gelu", name);
}

std::string_view to_string(Interpolation word) { return word_name(kInterpolations, word); }
Result<Interpolation> parse_interpolation(std::string_view name) {
  return parse_word<Interpolation>(kInterpolations, "interpolation", name);
}

std::string_view to_string(GridPadding word) { return word_name(kGridPaddings, word); }
Result<GridPadding> parse_grid_padding(std::string_view name) {
  return parse_word<GridPadding>(kGridPaddings, "padding of grid_sample", name);
}

std::string_view to_string(FftNorm word) { return word_name(kFftNorms, word); }
Result<FftNorm> parse_fft_norm(std::string_view name) {
  return parse_word<FftNorm>(kFftNorms, "norm of fft", name);
}

std::string_view to_string(PolynomialKind word) { return word_name(kPolynomialKinds, word); }
Result<PolynomialKind> parse_polynomial_kind(std::string_view name) {
  return parse_word<PolynomialKind>(kPolynomialKinds, "kind of polynomial", name);
}

}  // namespace hg
