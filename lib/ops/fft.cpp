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

Status infer_fft_to_real(InferContext& c) {
  HG_TRY(infer_fft<2>(c));
  HG_TRY_ASSIGN(const int axis, c.axis("dim", c.in(0).rank()));
  const Dim n = c.attrs().integer("n"), known = c.in(0).shape[axis];
  if (!c.require_at_least(n, 0)) return c.fail("n is ", n, ", but must not be negative");
  if (!c.require_equal(known, floordiv(n, 2) + 1))
    return c.fail("x has ", known, " numbers along dim ", axis, ", but n = ", n, " needs ",
                  floordiv(n, 2) + 1);
  c.out(0).shape[axis] = n;
  c.out(0).shape.back() = 1;
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
    row("fft(x, dim: int, inverse: bool = false, norm: str = \"none\") -> y", infer_fft<2>,
        fft_grad),
    // For real numbers: the transform of their pairs with 0.
    row<kInternal>("fft_of_real(x, dim: int, inverse: bool = false, norm: str = \"none\") -> y",
                   infer_fft<1>),
    // The real parts of the transform of n numbers, of which x has the first n/2 + 1; number k of
    // the others is the conjugate of x_(n-k). Ignores the imaginary parts of x_0 and x_(n/2).
    row<kInternal>(
        "fft_to_real(x, n: int, dim: int, inverse: bool = false, norm: str = \"none\") -> y",
        infer_fft_to_real),
};

}  // namespace

std::span<const OpDef> fft() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
