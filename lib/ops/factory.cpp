// SPDX-License-Identifier: Apache-2.0
// Tensors computed from attributes alone.

#include "hg/op.h"
#include "lib/graph/element.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using namespace term;

Status full_expand(ExpandContext& c) {
  const std::span<const Dim> shape = c.attrs().integers("shape");
  const DType dtype = c.attrs().dtype("dtype");
  for (const Dim& size : shape)
    if (!c.require_at_least(size, 0)) return invalid_argument("full: a size is ", size);
  c.set_out(0, expand(c.graph().scalar(c.attrs().real("value"), dtype),
                      Shape(shape.begin(), shape.end())));
  return {};
}

// start, start + step, ... before end
Status arange_infer(InferContext& c) {
  const Dim start = c.attrs().integer("start"), end = c.attrs().integer("end");
  const Dim step = c.attrs().integer("step");
  if (step == Dim(0)) return c.fail("step is 0");
  if (c.attrs().dtype("dtype") == boolean) return c.fail("dtype is bool");
  // ceil((end - start) / step), for positive and negative steps
  Dim size = Dim(0) - floordiv(start - end, step);
  if (!c.require_at_least(size, 0))
    return c.fail("start ", start, " and end ", end, " do not fit step ", step);
  c.out(0).dtype = c.attrs().dtype("dtype");
  c.out(0).shape.assign(1, size);
  return {};
}

Status linspace_infer(InferContext& c) {
  const Dim steps = c.attrs().integer("steps");
  if (!c.require_at_least(steps, 0)) return c.fail("steps is ", steps);
  const DType dtype = c.attrs().dtype("dtype");
  if (dtype == boolean) return c.fail("dtype is bool");
  for (const std::string_view end : {"start", "end"})
    if (const double v = c.attrs().real(end); !holds(dtype, v))
      return c.fail(end, " is ", v, ", which ", dtype, " does not hold");
  c.out(0) = {dtype, {steps}};
  return {};
}

// y[i, j] = i == j
Status eye_expand(ExpandContext& c) {
  auto count_up = [&](std::string_view size, int at) {
    const Dim end = c.attrs().integer(size);
    Shape shape(2, Dim(1));
    shape[at] = end;
    return reshape(c.graph().call("arange", {}, {{"end", end}}), shape);
  };
  c.set_out(0, cast(op("eq", count_up("n", 0), count_up("m", 1)), c.attrs().dtype("dtype")));
  return {};
}

// Tensors computed from attributes. Numbers are rounded to `dtype`.
constexpr OpDef kOps[] = {
    // A tensor of one value.
    {.signature = "full(shape: int[], value: float, dtype: dtype = f32) -> y",
     .expand = full_expand,
     .traits = kNoGradient},
    // start, start + step, ..., excluding end: [ceil((end - start) / step)]. Not for bool.
    {.signature = "arange(start: int = 0, end: int, step: int = 1, dtype: dtype = i64) -> y",
     .infer = arange_infer,
     .traits = kNoGradient},
    // `steps` evenly spaced numbers from start to end, both included. Not for bool.
    {.signature = "linspace(start: float, end: float, steps: int, dtype: dtype = f32) -> y",
     .infer = linspace_infer,
     .traits = kNoGradient},
    // [n, m] with ones on the diagonal.
    {.signature = "eye(n: int, m: int, dtype: dtype = f32) -> y",
     .expand = eye_expand,
     .traits = kNoGradient},
};

}  // namespace

std::span<const OpDef> factory() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
