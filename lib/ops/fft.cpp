// SPDX-License-Identifier: Apache-2.0
// The discrete Fourier transform. A complex tensor is a real one whose last dim holds the real and
// the imaginary part.
#include "hg/ops/fft.h"

#include "lib/graph/internal_op.h"
#include "lib/ops/row.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

// `parts` of a number in x's last dim.
template <int64_t parts>
Status infer_fft(InferContext& c) {
  const TensorType& x = c.in(0);
  if (x.dtype != f32 && x.dtype != f64) return c.fail("x is ", x.dtype, ", but must be f32 or f64");
  if (x.rank() < 2 || !(x.shape.back() == Dim(parts)))
    return c.fail("x is ", x, ", but its last dim must hold the parts of a number: ", parts);
  HG_TRY_ASSIGN(const int axis, c.axis("dim", x.rank()));
  if (axis == x.rank() - 1) return c.fail("dim ", axis, " is that of the two parts");
  const Result<FftNorm> norm = parse_fft_norm(c.attrs().string("norm"));
  if (!norm.ok()) return c.fail(norm.status().message());
  c.out(0) = x;
  c.out(0).shape.back() = 2;
  return {};
}

// y_k = s sum_j x_j e^(-+2 pi i jk/n). As a real matrix on pairs, its transpose is the inverse
// transform with the same factor s.
Status fft_grad(GradContext& c) {
  c.set_grad(0, c.graph().call("fft", {c.dout(0)},
                               {{"dim", c.attrs().integer("dim")},
                                {"inverse", !c.attrs().flag("inverse")},
                                {"norm", c.attrs().string("norm")}}));
  return {};
}

constexpr OpDef kOps[] = {
    // y_k = sum_j x_j e^(-2 pi i j k / n) along dim, where n is its size; e^(+...) if inverse. x is
    // f32 or f64 with real and imaginary parts in its last dim of size 2, as view_as_real returns.
    // The sums are divided as `norm` says.
    row("fft", "fft(x, dim: int, inverse: bool = false, norm: str = \"none\") -> y", infer_fft<2>,
        fft_grad),
    // For real numbers: the transform of their pairs with 0.
    row<kInternal>("fft_of_real",
                   "fft_of_real(x, dim: int, inverse: bool = false, norm: str = \"none\") -> y",
                   infer_fft<1>),
};

}  // namespace

std::span<const OpDef> fft() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
