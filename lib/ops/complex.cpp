// SPDX-License-Identifier: Apache-2.0
// Conversion from and to complex tensors. Inside a graph a complex number is a pair of reals.
// Gradients are PyTorch's: the gradient of z = a + bi is dL/da + i dL/db.
#include "hg/op.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

Status real_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  if (!is_complex(x.dtype)) return c.fail("takes a complex tensor, not one of ", x.dtype);
  c.out(0) = {real_of(x.dtype), x.shape};
  c.out(0).shape.emplace_back(2);
  return {};
}

// dx = view_as_complex(dy)
Status real_grad(GradContext& c) {
  c.set_grad(0, c.graph().call("view_as_complex", {c.dout(0)}));
  return {};
}

bool real_view(ViewContext& c) {
  Sizes strides = c.in_strides();
  for (int64_t& stride : strides) stride *= 2;
  strides.push_back(1);
  c.set(0, strides);
  return true;
}

Status complex_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  if (x.dtype != f32 && x.dtype != f64) return c.fail("takes f32 or f64, not ", x.dtype);
  if (x.rank() == 0 || !(x.shape.back() == Dim(2)))
    return c.fail("takes pairs: the last dim of ", x.shape, " is not 2");
  c.out(0) = {x.dtype == f32 ? c64 : c128, x.shape};
  c.out(0).shape.pop_back();
  return {};
}

// dx = view_as_real(dy)
Status complex_grad(GradContext& c) {
  c.set_grad(0, c.graph().call("view_as_real", {c.dout(0)}));
  return {};
}

// The parts of a pair must be adjacent, and pairs must start at every second element.
bool complex_view(ViewContext& c) {
  Sizes strides;
  const int last = c.in_shape().rank() - 1;
  if (c.in_strides()[last] != 1) return false;
  for (int d = 0; d < last; ++d) {
    if (c.in_strides()[d] % 2 != 0) return false;
    strides.push_back(c.in_strides()[d] / 2);
  }
  c.set(0, strides);
  return true;
}

// Complex tensors as pairs of reals. Only these ops have complex inputs or outputs.
constexpr OpDef kOps[] = {
    // c64[...] -> f32[..., 2], c128[...] -> f64[..., 2]: real and imaginary part.
    {.signature = "view_as_real(x) -> y",
     .infer = real_infer,
     .grad = real_grad,
     .view = real_view,
     .traits = kComplex},
    // The inverse of view_as_real.
    {.signature = "view_as_complex(x) -> y",
     .infer = complex_infer,
     .grad = complex_grad,
     .view = complex_view,
     .traits = kComplex},
};

}  // namespace

std::span<const OpDef> complex() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
