// SPDX-License-Identifier: Apache-2.0
// Rotary position embeddings (Su et al., RoFormer, 2021), in the form that pairs the two halves of
// a head.
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using namespace term;

Status rope_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  if (!is_float(x.dtype) || x.shape.empty())
    return c.fail("x must be a float tensor with at least one dim, but is ", x);
  if (x.shape.back().is_constant() && x.shape.back().constant() % 2 != 0)
    return c.fail("the last dim of x must be even, x is ", x.shape);
  for (int i = 1; i < 3; ++i) {
    const TensorType& angle = c.in(i);
    bool spreads = angle.dtype == x.dtype && angle.shape.size() <= x.shape.size();
    for (size_t d = 0; spreads && d < angle.shape.size(); ++d) {
      const Dim& size = angle.shape[angle.shape.size() - 1 - d];
      spreads = size == Dim(1) || !certainly_differ(size, x.shape[x.shape.size() - 1 - d]);
    }
    if (!spreads) return c.fail(i == 1 ? "cos " : "sin ", angle, " does not broadcast to ", x);
  }
  c.out(0) = x;
  return {};
}

// y = x cos + [-b, a] sin, with [a, b] = x
Status rope_expand(ExpandContext& c) {
  const Value x = c.in(0);
  const Dim half = floordiv(x.dim(-1), Dim(2));
  Graph& g = c.graph();
  const auto part = [&](const Dim& from, const Dim& to) {
    return g.call("slice", {x}, {{"dim", -1}, {"start", from}, {"end", to}});
  };
  const Value rotated =
      g.call("concat", {op("neg", part(half, x.dim(-1))), part(0, half)}, {{"dim", -1}});
  c.set_out(0, op("add", op("mul", x, c.in(1)), op("mul", rotated, c.in(2))));
  return {};
}

constexpr OpDef kOps[] = {
    // Rotary position embedding (Su et al. 2021): x cos + [-b, a] sin, where a and b are the halves
    // of the last dim of x. cos and sin broadcast to x.
    {.signature = "rope(x, cos, sin) -> y", .infer = rope_infer, .expand = rope_expand},
};

}  // namespace

std::span<const OpDef> rope() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
