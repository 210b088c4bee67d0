// SPDX-License-Identifier: Apache-2.0
// Names of the enums in hg/words.h.
#include "hg/words.h"

#include "hg/ops/fft.h"
#include "hg/ops/special.h"
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

std::string_view name_of(Reduction word) { return word_name(kReductions, word); }
Result<Reduction> reduction_named(std::string_view name) {
  return word_named<Reduction>(kReductions, "reduction", name);
}

std::string_view name_of(PadMode word) { return word_name(kPadModes, word); }
Result<PadMode> pad_mode_named(std::string_view name) {
  return word_named<PadMode>(kPadModes, "mode of padding", name);
}

std::string_view name_of(ScatterReduce word) { return word_name(kScatterReduces, word); }
Result<ScatterReduce> scatter_reduce_named(std::string_view name) {
  return word_named<ScatterReduce>(kScatterReduces, "reduction of scatter", name);
}

std::string_view name_of(GeluApproximation word) { return word_name(kGeluApproximations, word); }
Result<GeluApproximation> gelu_approximation_named(std::string_view name) {
  return word_named<GeluApproximation>(kGeluApproximations, "approximation of gelu", name);
}

std::string_view name_of(Interpolation word) { return word_name(kInterpolations, word); }
Result<Interpolation> interpolation_named(std::string_view name) {
  return word_named<Interpolation>(kInterpolations, "interpolation", name);
}

std::string_view name_of(GridPadding word) { return word_name(kGridPaddings, word); }
Result<GridPadding> grid_padding_named(std::string_view name) {
  return word_named<GridPadding>(kGridPaddings, "padding of grid_sample", name);
}

std::string_view name_of(FftNorm word) { return word_name(kFftNorms, word); }
Result<FftNorm> fft_norm_named(std::string_view name) {
  return word_named<FftNorm>(kFftNorms, "norm of fft", name);
}

std::string_view name_of(PolynomialKind word) { return word_name(kPolynomialKinds, word); }
Result<PolynomialKind> polynomial_kind_named(std::string_view name) {
  return word_named<PolynomialKind>(kPolynomialKinds, "kind of polynomial", name);
}

}  // namespace hg
