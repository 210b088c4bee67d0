// SPDX-License-Identifier: Apache-2.0
// Dropout stays a node of its own, since a trainer switches it on where the file has it off.
#include "hg/op.h"

namespace hg::ops {
namespace {

Status infer(InferContext& c) {
  const double p = c.attrs().real("p");
  if (!(p >= 0 && p <= 1)) return c.fail("p is ", p, ", not in [0, 1]");
  c.out(0) = c.in(0);
  return {};
}

// y = x outside of training
Status expand(ExpandContext& c) {
  const double p = c.attrs().real("p");
  if (c.attrs().flag("training") && p > 0)
    return unsupported("dropout: p = ", p, " in training mode has no kernel here; ",
                       "trace the model after model.eval()");
  c.set_out(0, c.in(0));
  return {};
}

constexpr OpDef kOps[] = {
    {.name = "dropout",
     .signature = "dropout(x, p: float = 0.5, training: bool = false) -> y",
     .infer = infer,
     .expand = expand,
     .alias = 1},
};

}  // namespace

std::span<const OpDef> dropout() { return kOps; }

}  // namespace hg::ops
