// SPDX-License-Identifier: Apache-2.0
// Names of the enums in hg/words.h.
#include "hg/words.h"

#include "lib/graph/word_table.h"

namespace hg {

HG_WORDS(Reduction, parse_reduction, "reduction", "none", "mean", "sum")
HG_WORDS(PadMode, parse_pad_mode, "mode of padding", "constant", "reflect", "replicate", "circular")
HG_WORDS(ScatterReduce, parse_scatter_reduce, "reduction of scatter", "none", "add", "prod", "amax",
         "amin", "mean")
HG_WORDS(GeluApproximation, parse_gelu_approximation, "approximation of gelu", "none", "tanh")
HG_WORDS(Interpolation, parse_interpolation, "interpolation", "nearest", "nearest-exact", "linear",
         "bilinear", "trilinear", "bicubic")
HG_WORDS(GridPadding, parse_grid_padding, "padding of grid_sample", "zeros", "border", "reflection")
HG_WORDS(FftNorm, parse_fft_norm, "norm of fft", "none", "n", "sqrt")
HG_WORDS(PolynomialKind, parse_polynomial_kind, "kind of polynomial", "chebyshev_t", "chebyshev_u",
         "chebyshev_v", "chebyshev_w", "shifted_chebyshev_t", "shifted_chebyshev_u",
         "shifted_chebyshev_v", "shifted_chebyshev_w", "hermite_h", "hermite_he", "laguerre_l",
         "legendre_p")

}  // namespace hg
