// SPDX-License-Identifier: Apache-2.0
// Connectionist temporal classification (Graves et al. 2006) and its gradient.
#include "hg/op.h"
#include "lib/graph/internal_op.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

// log_probs: [time, batch, classes]; targets: [batch, length], or concatenated as [sum of lengths];
// lengths: [batch]
Status check(const InferContext& c, int first) {
  const TensorType &x = c.in(first), &targets = c.in(first + 1);
  if (!is_float(x.dtype)) return c.fail("log_probs must be a float tensor, but is ", x.dtype);
  if (x.rank() != 3) return c.fail("log_probs must be [time, batch, classes], but is ", x.shape);
  if (targets.rank() != 1 && targets.rank() != 2)
    return c.fail("targets must be [batch, length] or [all], but is ", targets.shape);
  if (targets.rank() == 2 && !c.require_equal(targets.shape[0], x.shape[1]))
    return c.fail("targets ", targets.shape, " are not for ", x.shape[1], " samples");
  for (int i = first + 1; i < first + 4; ++i)
    if (c.in(i).dtype != i64) return c.fail("input ", i, " must be i64, but is ", c.in(i).dtype);
  for (int i = first + 2; i < first + 4; ++i)
    if (c.in(i).rank() != 1 || !c.require_equal(c.in(i).shape[0], x.shape[1]))
      return c.fail("lengths must be [", x.shape[1], "], but are ", c.in(i).shape);
  const Dim blank = c.attrs().integer("blank");
  if (!c.require_at_least(blank, 0) || (blank.is_constant() && x.shape[2].is_constant() &&
                                        blank.constant() >= x.shape[2].constant()))
    return c.fail("blank is ", blank, ", log_probs has ", x.shape[2], " classes");
  return {};
}

Status ctc_loss_infer(InferContext& c) {
  HG_TRY(check(c, 0));
  c.out(0) = {c.in(0).dtype, {c.in(0).shape[1]}};
  return {};
}
Status grad_infer(InferContext& c) {
  HG_TRY(check(c, 1));
  if (!c.require_equal(c.in(0), {c.in(1).dtype, {c.in(1).shape[1]}}))
    return c.fail("dy must be one ", c.in(1).dtype, " for each of ", c.in(1).shape[1],
                  " samples, but is ", c.in(0));
  c.out(0) = c.in(1);
  return {};
}

// d log_probs = dy (exp(log_probs) - the share of the paths through this class). This assumes, as
// torch does, that log_probs is the result of log_softmax.
Status ctc_loss_grad(GradContext& c) {
  const Value dy = c.dout(0);
  c.set_grad(0, c.graph().call("ctc_loss_grad", {dy, c.in(0), c.in(1), c.in(2), c.in(3)},
                               {{"blank", c.attrs().raw("blank")},
                                {"zero_infinity", c.attrs().raw("zero_infinity")}}));
  return {};
}

constexpr OpDef kOps[] = {
    // Connectionist temporal classification (Graves et al. 2006): minus the log probability of all
    // paths that produce the targets, [batch].
    //
    // - log_probs: [time, batch, classes], from log_softmax.
    // - targets: [batch, length], or concatenated in one row. Lengths: [batch]. All inputs but
    //   log_probs are i64.
    // - zero_infinity: 0 instead of infinity if no path is long enough.
    {.signature = "ctc_loss(log_probs, targets, input_lengths, target_lengths, blank: int = 0, "
                  "zero_infinity: bool = false) -> loss",
     .infer = ctc_loss_infer,
     .grad = ctc_loss_grad},
    {.signature = "ctc_loss_grad(dy, log_probs, targets, input_lengths, target_lengths, blank: int "
                  "= 0, zero_infinity: bool = false) -> dlog_probs",
     .infer = grad_infer,
     .traits = kInternal},
};

}  // namespace

std::span<const OpDef> ctc_loss() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
