// SPDX-License-Identifier: Apache-2.0
// One update of one parameter by an optimizer, with torch.optim's formulas. The outputs are the new
// contents of the given inputs before `gradient`, and may overwrite them.
//
// All optimizers first compute g: the gradient, plus the accumulated gradients; g *= scale; g is
// clamped to [-clip_value, clip_value]; g = -g if maximizing; g += weight_decay x, unless the decay
// is decoupled. `lr` holds the rates of all groups, `step` counts updates including this one.
// Without `go` only `accumulated` changes: it becomes the sum, and is 0 after an update. A gradient
// with fewer rows than x is the gradient of the rows from `first` on; other rows stay unchanged.
// Gradients of large parameters are computed and applied in such parts.
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

struct Slots {  // positions of the inputs that all optimizers have
  int gradient, lr, step, scale, go;
};
Slots slots_of(const Op& op) {
  const int g = op.signature.find_input("gradient");
  return {g, g + 1, g + 2, g + 3, g + 4};
}

Status optimizer_infer(InferContext& c) {
  const Slots at = slots_of(c.attrs().op());
  const auto check = [&](int i, const TensorType& type) -> Status {
    if (!given(c, i) || c.in(i) == type) return {};
    return c.fail(c.attrs().op().signature.inputs[i].name, " is ", c.in(i), ", not ", type);
  };
  if (!is_float(c.in(0).dtype)) return c.fail("x is ", c.in(0).dtype, ", not a float");
  for (int i = 1; i < at.gradient; ++i) HG_TRY(check(i, c.in(0)));
  TensorType part = c.in(0);
  const Dim first = c.attrs().integer("first");
  if (part.rank() > 0 && c.in(at.gradient).rank() > 0) {
    const Dim rows = part.shape[0], given_rows = c.in(at.gradient).shape[0];
    if (!c.require_at_least(first, 0) || !c.require_at_least(rows - first - given_rows, 0))
      return c.fail("the rows from ", first, " to ", first + given_rows,
                    " of the gradient are none of x, which is ", part);
    if (!(first == Dim(0)) || given_rows.is_constant()) part.shape[0] = given_rows;
  } else if (!(first == Dim(0))) {
    return c.fail("first is ", first, ", but x is ", part, " and the gradient ", c.in(at.gradient));
  }
  HG_TRY(check(at.gradient, part));
  HG_TRY(check(at.step, {i64, {}}));
  HG_TRY(check(at.go, {boolean, {}}));
  if (given(c, at.scale) && (!is_float(c.in(at.scale).dtype) || c.in(at.scale).rank() != 0))
    return c.fail("scale is ", c.in(at.scale), ", not one float");
  const TensorType& lr = c.in(at.lr);
  const Dim group = c.attrs().integer("group");
  if (!is_float(lr.dtype) || lr.rank() != 1) return c.fail("lr is ", lr, ", not floats[groups]");
  if (!group.is_constant() || group.constant() < 0 || !c.require_at_least(lr.shape[0] - group, 1))
    return c.fail("group is ", group, ", lr is ", lr);
  int outputs = 0;
  for (int i = 0; i < at.gradient; ++i) outputs += given(c, i);
  c.set_output_count(outputs);
  for (int i = 0; i < outputs; ++i) c.out(i) = c.in(0);
  return {};
}

// The formulas in the dtype of x.
class Update {
 public:
  explicit Update(ExpandContext& c) : c_(c), at_(slots_of(c.attrs().op())), x(state(0)) {
    const AttrReader& a = c.attrs();
    lr = cast(term::slice(c.in(at_.lr), 0, a.integer("group"), a.integer("group") + 1), x.dtype());
    lr = term::reshape(lr, {});
    g = c.in(at_.gradient);
    if (given(c, at_.gradient - 1)) g = sum_ = state(at_.gradient - 1) + g;
    if (given(c, at_.scale)) g = g * cast(c.in(at_.scale), x.dtype());
    if (a.has("clip_value")) {
      const double limit = a.real("clip_value");
      g = clamp(g, term::number(g, -limit), term::number(g, limit));
    }
    if (a.flag("maximize")) g = -g;
  }
  void decay() {
    if (const double decay = c_.attrs().real("weight_decay"); decay != 0) g = g + x * decay;
  }
  // 1 - beta^step
  Value correction(double beta) const {
    const Value step = cast(c_.in(at_.step), f64);
    return cast(1 - hg::pow(term::number(step, beta), step), x.dtype());
  }
  Value is_first() const { return le(c_.in(at_.step), x.graph()->scalar(int64_t{1}, i64)); }
  // The rows of input i that have a gradient.
  Value state(int i) const {
    return is_part() ? term::slice(c_.in(i), 0, first(), end()) : c_.in(i);
  }
  // The new contents of input i, which must be given.
  void set(int i, const Value& value) {
    const bool gated = given(c_, at_.go);
    set_rows(i, gated ? where(c_.in(at_.go), value, state(i)) : value);
  }
  void set_accumulated() {
    if (!sum_) return;
    const Value none = term::full_like(sum_, 0);
    set_rows(at_.gradient - 1, given(c_, at_.go) ? where(c_.in(at_.go), none, sum_) : none);
  }

 private:
  Dim first() const { return c_.attrs().integer("first"); }
  Dim end() const { return first() + c_.in(at_.gradient).dim(0); }
  bool is_part() const { return !(c_.in(at_.gradient).shape() == c_.in(0).shape()); }
  void set_rows(int i, Value value) {
    if (is_part()) {
      const Value whole = c_.in(i);
      const Value before = term::slice(whole, 0, 0, first());
      const Value after = term::slice(whole, 0, end(), whole.dim(0));
      value = x.graph()->call("concat", {before, value, after}, {{"dim", 0}});
    }
    c_.set_out(outputs_++, value);
  }

  ExpandContext& c_;
  Slots at_;
  Value sum_;
  int outputs_ = 0;

 public:
  Value x, g, lr;
};

// buffer = momentum buffer + (1 - dampening) g, or g in the first step; x -= lr buffer, or with
// nesterov x -= lr (g + momentum buffer)
Status sgd(ExpandContext& c) {
  Update u(c);
  u.decay();
  if (!given(c, 1)) {
    u.set(0, u.x - u.lr * u.g);
    u.set_accumulated();
    return {};
  }
  const AttrReader& a = c.attrs();
  const double momentum = a.real("momentum");
  const Value moved = u.state(1) * momentum + u.g * (1 - a.real("dampening"));
  const Value buffer = where(u.is_first(), u.g, moved);
  u.set(0, u.x - u.lr * (a.flag("nesterov") ? u.g + buffer * momentum : buffer));
  u.set(1, buffer);
  u.set_accumulated();
  return {};
}

// mean += (1 - beta1) (g - mean); square = beta2 square + (1 - beta2) g^2;
// x -= lr / (1 - beta1^t) mean / (sqrt(square / (1 - beta2^t)) + eps). With `largest`, its running
// maximum replaces square. Decoupled decay first: x *= 1 - lr weight_decay.
// Kingma and Ba 2015; Loshchilov and Hutter 2019; Reddi et al. 2018.
Status adam(ExpandContext& c) {
  Update u(c);
  const AttrReader& a = c.attrs();
  const double beta1 = a.real("beta1"), beta2 = a.real("beta2");
  Value x = u.x;
  if (!a.flag("decoupled"))
    u.decay();
  else
    x = x * (1 - u.lr * a.real("weight_decay"));
  const Value mean = u.state(1) + (u.g - u.state(1)) * (1 - beta1);
  const Value square = u.state(2) * beta2 + u.g * u.g * (1 - beta2);
  const Value largest = given(c, 3) ? maximum(u.state(3), square) : square;
  const Value root = sqrt(largest) / sqrt(u.correction(beta2)) + a.real("eps");
  u.set(0, x - u.lr / u.correction(beta1) * mean / root);
  u.set(1, mean);
  u.set(2, square);
  if (given(c, 3)) u.set(3, largest);
  u.set_accumulated();
  return {};
}

// square = alpha square + (1 - alpha) g^2; d = g / (sqrt(square - mean^2) + eps), where mean is the
// running mean of g, if given; x -= lr d, or lr buffer with buffer = momentum buffer + d
Status rmsprop(ExpandContext& c) {
  Update u(c);
  const AttrReader& a = c.attrs();
  const double alpha = a.real("alpha");
  u.decay();
  const Value square = u.state(1) * alpha + u.g * u.g * (1 - alpha);
  Value mean, var = square;
  if (given(c, 2)) {
    mean = u.state(2) + (u.g - u.state(2)) * (1 - alpha);
    var = square - mean * mean;
  }
  Value d = u.g / (sqrt(var) + a.real("eps"));
  if (given(c, 3)) d = u.state(3) * a.real("momentum") + d;
  u.set(0, u.x - u.lr * d);
  u.set(1, square);
  if (mean) u.set(2, mean);
  if (given(c, 3)) u.set(3, d);
  u.set_accumulated();
  return {};
}

// One update of one parameter, with torch.optim's formulas: returns the new contents of x and of
// the given states, in the order of the inputs, `accumulated` last.
constexpr OpDef kOps[] = {
    // buffer = momentum * buffer + (1 - dampening) * g, or g in the first step. x -= lr * buffer;
    // with nesterov, x -= lr * (g + momentum * buffer). g is the gradient after accumulated, scale,
    // clip_value, maximize and weight_decay.
    // C++: hg/ops/optimizer.h
    {.signature = "sgd_step(x, momentum_buffer?, accumulated?, gradient, lr, step, scale?, go?, "
                  "group: int = 0, first: int = 0, momentum: float = 0, dampening: float = 0, "
                  "nesterov: bool = false, weight_decay: float = 0, clip_value: float? = none, "
                  "maximize: bool = false) -> updated...",
     .infer = optimizer_infer,
     .expand = sgd,
     .traits = kNoGradient | kInPlace},
    // mean += (1 - beta1) * (g - mean); square = beta2 * square + (1 - beta2) * g^2; x -= lr / (1 -
    // beta1^step) * mean / (sqrt(square / (1 - beta2^step)) + eps). g is that of sgd_step.
    // C++: hg/ops/optimizer.h
    {.signature = "adam_step(x, mean, square, largest?, accumulated?, gradient, lr, step, scale?, "
                  "go?, group: int = 0, first: int = 0, beta1: float = 0.9, beta2: float = 0.999, "
                  "eps: float = 1e-8, weight_decay: float = 0, decoupled: bool = false, "
                  "clip_value: float? = none, maximize: bool = false) -> updated...",
     .infer = optimizer_infer,
     .expand = adam,
     .traits = kNoGradient | kInPlace},
    // square = alpha * square + (1 - alpha) * g^2; d = g / (sqrt(square - mean^2) + eps), where
    // mean is 0 unless given. x -= lr * d, or x -= lr * buffer with buffer = momentum * buffer + d.
    // g is that of sgd_step.
    // C++: hg/ops/optimizer.h
    {.signature = "rmsprop_step(x, square, mean?, momentum_buffer?, accumulated?, gradient, lr, "
                  "step, scale?, go?, group: int = 0, first: int = 0, alpha: float = 0.99, "
                  "eps: float = 1e-8, weight_decay: float = 0, momentum: float = 0, "
                  "clip_value: float? = none, maximize: bool = false) -> updated...",
     .infer = optimizer_infer,
     .expand = rmsprop,
     .traits = kNoGradient | kInPlace},
};

}  // namespace

std::span<const OpDef> optimizer() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
