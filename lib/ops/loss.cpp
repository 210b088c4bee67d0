// SPDX-License-Identifier: Apache-2.0
// Losses; all are composites. reduction is none, mean or sum. The mean is over all elements unless
// the row says otherwise.
#include <cmath>

#include "hg/op.h"
#include "hg/ops/control.h"
#include "lib/graph/real.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

Status finish(ExpandContext& c, const Value& loss) {
  const std::string& reduction = c.attrs().string("reduction");
  if (reduction == "mean")
    c.set_out(0, hg::mean(loss, {}));
  else if (reduction == "sum")
    c.set_out(0, hg::sum(loss, {}));
  else if (reduction == "none")
    c.set_out(0, loss);
  else
    return invalid_argument("reduction is '", reduction, "', expected one of none mean sum");
  return {};
}

// Checks a bound on a number: when the graph runs, if the number is only known then.
Status expect(ExpandContext& c, const Real& number, std::string_view op, double bound,
              std::string_view otherwise) {
  const std::string text = str_cat(c.attrs().op().name(), ": ", otherwise);
  if (!number.is_known()) {
    assert_true(term::op(op, number.as(c.graph(), f64), c.graph().scalar(bound, f64)), text);
    return {};
  }
  const double n = number.known();
  if (op == "ge" ? n >= bound : op == "gt" ? n > bound : n <= bound) return {};
  return invalid_argument(text, ", but is ", n);
}

// (x - target)^2
Status mse(ExpandContext& c) {
  const Value d = c.in(0) - c.in(1);
  return finish(c, d * d);
}

// |x - target|
Status l1(ExpandContext& c) { return finish(c, abs(c.in(0) - c.in(1))); }

// d^2 / (2 beta) where |d| < beta, else |d| - beta / 2
Status smooth_l1(ExpandContext& c) {
  const Real beta = real(c, "beta");
  HG_TRY(expect(c, beta, "ge", 0, "beta is negative"));
  const Value d = c.in(0) - c.in(1), size = abs(d);
  if (beta.is(0)) return finish(c, size);
  return finish(c, where(lt(size, beta.like(d)), d * d * (0.5 / beta), size - 0.5 * beta));
}

// d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2)
Status huber(ExpandContext& c) {
  const Real delta = real(c, "delta");
  HG_TRY(expect(c, delta, "gt", 0, "delta is not positive"));
  const Value d = c.in(0) - c.in(1), size = abs(d);
  return finish(c, where(le(size, delta.like(d)), d * d * 0.5, (size - 0.5 * delta) * delta));
}

// -weight (target log x + (1 - target) log(1 - x)), both logarithms at least -100
Status bce(ExpandContext& c) {
  const Value x = c.in(0), target = c.in(1);
  const Value zero = term::number(x, 0), one = term::number(x, 1), other = 1 - x;
  // max(log p, -100), where q is 1 - p. PyTorch's slopes are 1e12 at p = 0 and 0 at p = 1.
  const double slope = x.dtype() == f16 ? 6e4 : 1e12;
  const auto log_of = [&](const Value& p, const Value& q) {
    const Value is_zero = eq(p, zero), inside = where(logical_or(is_zero, eq(q, zero)), one, p);
    return where(is_zero, p * slope - 100, maximum(log(inside), term::number(p, -100)));
  };
  Value loss = (target - 1) * log_of(other, x) - target * log_of(x, other);
  if (given(c, 2)) loss = loss * c.in(2);
  return finish(c, loss);
}

// weight ((1 - target) x - (1 + (pos_weight - 1) target) log sigmoid(x))
Status bce_with_logits(ExpandContext& c) {
  const Value x = c.in(0), target = c.in(1);
  Value positive = log_sigmoid(x);
  if (given(c, 3)) positive = positive * ((c.in(3) - 1) * target + 1);
  Value loss = (1 - target) * x - positive;
  if (given(c, 2)) loss = loss * c.in(2);
  return finish(c, loss);
}

// target (log target - x), 0 where target is 0; with log_target e^target (target - x)
Status kl_div(ExpandContext& c) {
  const Value x = c.in(0), target = c.in(1);
  if (c.attrs().flag("log_target")) return finish(c, exp(target) * (target - x));
  return finish(c, xlogy(target, target) - target * x);
}

// One class index per row, as [n, 1, ...] for x [n, classes, ...]; ignored indices become 0.
struct Targets {
  Value x, index, kept;  // kept: [n, ...], false where ignored
  bool single = false;   // x was [classes]
};
Status read_targets(ExpandContext& c, std::string_view op, Targets& t) {
  t.x = c.in(0);
  Value target = c.in(1);
  if (t.x.rank() == 1 && target.rank() == 0) {
    t.single = true;
    t.x = term::reshape(t.x, {Dim(1), t.x.dim(0)});
    target = term::reshape(target, {Dim(1)});
  }
  if (t.x.rank() < 2 || target.rank() != t.x.rank() - 1)
    return invalid_argument(op, ": x is ", c.in(0).shape(), ", target is ", c.in(1).shape(),
                            "; expected [n, classes, ...] and [n, ...]");
  for (int i = 0; i < target.rank(); ++i)
    if (!guard_equal(c, target.dim(i), t.x.dim(i == 0 ? 0 : i + 1)))
      return invalid_argument(op, ": x is ", c.in(0).shape(), ", target is ", c.in(1).shape());
  if (!is_integer(target.dtype()))
    return invalid_argument(op, ": target must be integers, but is ", target.dtype());
  const Dim ignored = c.attrs().integer("ignore_index");
  if (!ignored.is_constant())
    return invalid_argument(op, ": ignore_index is ", ignored, ", but must be a number");
  target = cast(target, i64);
  Graph& g = c.graph();
  t.kept = ne(target, g.scalar(ignored.constant(), i64));
  t.index = where(t.kept, target, g.scalar(int64_t{0}, i64));
  return {};
}

Value picked(const Value& x, const Value& index) {  // x[n, index[n, ...], ...]
  if (!index) return index;                         // the graph has failed
  Shape column = index.shape();
  column.insert(column.begin() + 1, Dim(1));
  const Value taken = x.graph()->call("gather", {x, term::reshape(index, column)}, {{"dim", 1}});
  return term::reshape(taken, index.shape());
}

// weight[index], 0 where ignored
Value weights_of(const Value& weight, const Targets& t, DType dtype) {
  const Value zero = term::number(t.x, 0);
  if (!weight) return where(t.kept, cast(term::full_like(t.index, 1), dtype), zero);
  const Value flat = term::reshape(t.index, {count(t.index.shape())});
  const Value taken = t.x.graph()->call("index_select", {weight, flat}, {{"dim", 0}});
  return where(t.kept, term::reshape(taken, t.index.shape()), zero);
}

// -weight[target] x[target]; the mean divides by the sum of the weights.
struct Nll {
  Value loss, total;
};
Nll nll_of(const Value& log_p, const Targets& t, const Value& weight) {
  const Value w = weights_of(weight, t, log_p.dtype());
  const Value loss = where(t.kept, -picked(log_p, t.index) * w, term::number(log_p, 0));
  return {loss, hg::sum(w, {})};
}

Status nll(ExpandContext& c) {
  Targets t;
  HG_TRY(read_targets(c, "nll_loss", t));
  const Nll n = nll_of(t.x, t, input_or_none(c, 2));
  c.set_out(1, n.total);
  const std::string& reduction = c.attrs().string("reduction");
  if (reduction == "mean") {
    c.set_out(0, hg::sum(n.loss, {}) / n.total);
    return {};
  }
  HG_TRY(finish(c, t.single ? term::reshape(n.loss, {}) : n.loss));
  return {};
}

// Class probabilities as targets: -sum over classes of weight target log softmax(x).
Status soft_cross_entropy(ExpandContext& c, const Real& smoothing) {
  const Value x = c.in(0);
  Value target = c.in(1);
  const int axis = x.rank() == 1 ? 0 : 1;
  if (target.rank() != x.rank())
    return invalid_argument("cross_entropy: x is ", x.shape(), ", target is ", target.shape());
  if (!x.dim(axis).is_constant())
    return unsupported("cross_entropy: the number of classes, ", x.dim(axis), ", must be known");
  const double classes = static_cast<double>(x.dim(axis).constant());
  if (!smoothing.is(0)) target = target * (1 - smoothing) + smoothing / classes;
  Value terms = c.graph().call("log_softmax", {x}, {{"dim", axis}}) * target;
  if (given(c, 2)) {
    Shape shape(x.rank(), Dim(1));
    shape[axis] = x.dim(axis);
    terms = terms * term::reshape(c.in(2), shape);
  }
  const std::string& reduction = c.attrs().string("reduction");
  if (reduction == "none")
    c.set_out(0, -hg::sum(terms, {axis}));
  else if (reduction == "sum")
    c.set_out(0, -hg::sum(terms, {}));
  else if (reduction == "mean")
    c.set_out(0, -hg::mean(terms, {}) * classes);
  else
    return invalid_argument("reduction is '", reduction, "', expected one of none mean sum");
  return {};
}

// nll_loss of log_softmax(x); with label smoothing s: (1 - s) nll + s / classes * sum over classes.
Status cross_entropy(ExpandContext& c) {
  Real smoothing = real(c, "label_smoothing");
  if (smoothing.is_known())
    HG_TRY(expect(c, smoothing, "ge", 0, "label_smoothing is negative"));
  else  // torch treats numbers that are not positive, including NaN, as 0
    smoothing = Real(where(gt(smoothing.value(), term::number(smoothing.value(), 0)),
                           smoothing.value(), term::number(smoothing.value(), 0)));
  HG_TRY(expect(c, smoothing, "le", 1, "label_smoothing is above 1"));
  if (is_float(c.in(1).dtype())) return soft_cross_entropy(c, smoothing);
  Targets t;
  HG_TRY(read_targets(c, "cross_entropy", t));
  const Value log_p = c.graph().call("log_softmax", {t.x}, {{"dim", 1}});
  const Value weight = input_or_none(c, 2);
  Nll n = nll_of(log_p, t, weight);
  if (!smoothing.is(0)) {
    if (!t.x.dim(1).is_constant())
      return unsupported("cross_entropy: the number of classes, ", t.x.dim(1), ", must be known");
    Value all = log_p;
    if (weight) {
      Shape shape(t.x.rank(), Dim(1));
      shape[1] = t.x.dim(1);
      all = all * term::reshape(weight, shape);
    }
    const Value smooth = where(t.kept, -hg::sum(all, {1}), term::number(log_p, 0));
    n.loss = n.loss * (1 - smoothing) +
             smooth * (smoothing / static_cast<double>(t.x.dim(1).constant()));
  }
  const std::string& reduction = c.attrs().string("reduction");
  if (reduction == "mean") {
    c.set_out(0, hg::sum(n.loss, {}) / n.total);
    return {};
  }
  return finish(c, t.single ? term::reshape(n.loss, {}) : n.loss);
}

// max(0, x), with the whole gradient at 0, as PyTorch's losses have it
Value at_least_0(const Value& x) { return x.graph()->call("clamp", {x, term::number(x, 0)}); }

// x where target is 1, max(0, margin - x) where it is -1
Status hinge_embedding(ExpandContext& c) {
  const Value x = c.in(0), target = c.in(1), zero = term::number(x, 0);
  const Value over = at_least_0(real(c, "margin") - x);
  const Value far = where(ne(target, term::number(target, 1)), over, zero);
  // -1 is not a truth value.
  const bool truths = target.dtype() == boolean;
  return finish(c, far + (truths ? x : where(ne(target, term::number(target, -1)), x, zero)));
}

// max(0, -target (x1 - x2) + margin)
Status margin_ranking(ExpandContext& c) {
  return finish(c, at_least_0(-c.in(2) * (c.in(0) - c.in(1)) + real(c, "margin")));
}

// log(1 + exp(-target x))
Status soft_margin(ExpandContext& c) { return finish(c, log1p(exp(-c.in(1) * c.in(0)))); }

// 1 - cos where target is 1, max(0, cos - margin) where it is -1; along the dim after the batch
Status cosine_embedding(ExpandContext& c) {
  const Value target = c.in(2);
  const Dims over = {target.rank()};
  const Value a = c.in(0), b = c.in(1);
  const Value product = hg::sum(a * b, over);
  const Value norms = (hg::sum(a * a, over) + 1e-12) * (hg::sum(b * b, over) + 1e-12);
  const Value cosine = product / sqrt(norms), zero = term::number(a, 0);
  const Value near = where(eq(target, term::number(target, 1)), 1 - cosine, zero);
  const Value far =
      where(eq(target, term::number(target, -1)), at_least_0(cosine - real(c, "margin")), zero);
  return finish(c, near + far);
}

// e^x - target x with log_input, otherwise x - target log(x + eps); full adds Stirling's
// approximation of log target! where target > 1
Status poisson_nll(ExpandContext& c) {
  const Value x = c.in(0), target = c.in(1);
  Value loss =
      c.attrs().flag("log_input") ? exp(x) - target * x : x - target * log(x + real(c, "eps"));
  if (c.attrs().flag("full")) {
    const Value safe = maximum(target, term::number(target, 1));
    const Value stirling = safe * log(safe) - safe + 0.5 * log(safe * 6.283185307179586);
    loss = loss + where(gt(target, term::number(target, 1)), stirling, term::number(stirling, 0));
  }
  return finish(c, loss);
}

// max(0, |a - p| - |a - n| + margin), norms along the last dim; with swap, |p - n| replaces |a - n|
// if smaller
Status triplet_margin(ExpandContext& c) {
  const std::vector<NamedReal> norm = {{"p", real(c, "p")}, {"eps", real(c, "eps")}};
  auto distance = [&](const Value& a, const Value& b) {
    return call_with(c.graph(), "pairwise_distance", {a, b}, norm);
  };
  const Value near = distance(c.in(0), c.in(1));
  Value far = distance(c.in(0), c.in(2));
  if (c.attrs().flag("swap")) far = minimum(far, distance(c.in(1), c.in(2)));
  return finish(c, at_least_0(near - far + real(c, "margin")));
}

// sum over j != target of max(0, margin - x[target] + x[j])^p * weight[target] / classes
Status multi_margin(ExpandContext& c) {
  Graph& g = c.graph();
  Value x = c.in(0), target = cast(c.in(1), i64);
  const bool single = x.rank() <= 1;
  const Dim classes = x.rank() == 0 ? Dim(1) : x.dim(-1);
  if (x.rank() > 2 || !classes.is_constant())
    return unsupported("multi_margin_loss: x must be [n, classes], but is ", x.shape());
  const double p = c.attrs().real("p");
  if (p != 1 && p != 2) return invalid_argument("multi_margin_loss: p is ", p, ", not 1 or 2");
  if (single) x = term::reshape(x, {Dim(1), classes});
  target = term::reshape(target, {x.dim(0)});
  const Value column = term::reshape(target, {x.dim(0), Dim(1)});
  const Value own = g.call("gather", {x, column}, {{"dim", 1}});
  const Value zero = term::number(x, 0);
  Value over = x - own + real(c, "margin");
  over = where(gt(over, zero), over, zero);  // NaN is ignored
  if (p == 2) over = over * over;
  if (given(c, 2)) {
    const Value w = g.call("index_select", {c.in(2), target}, {{"dim", 0}});
    over = over * term::reshape(w, {x.dim(0), Dim(1)});
  }
  const Value each =
      g.call("arange", {}, {{"start", Dim(0)}, {"end", classes}, {"step", Dim(1)}, {"dtype", i64}});
  over = where(ne(each, column), over, zero);
  const Value loss = hg::sum(over, {1}) / static_cast<double>(classes.constant());
  if (c.attrs().string("reduction") == "mean" && x.dim(0).lower_bound() < 1) {  // no rows: 0
    c.set_out(0, hg::sum(loss, {}) / cast(term::integer(g, max(x.dim(0), 1)), x.dtype()));
    return {};
  }
  return finish(c, single ? term::reshape(loss, {}) : loss);
}

// Sum over the targets j (up to the first -1) and the classes i that are not targets of max(0, 1 -
// x[j] + x[i]) / classes
Status multilabel_margin(ExpandContext& c) {
  Graph& g = c.graph();
  Value x = c.in(0), target = cast(c.in(1), i64);
  const bool single = x.rank() <= 1;
  const Dim classes = x.rank() == 0 ? Dim(1) : x.dim(-1);
  if (x.rank() > 2 || !classes.is_constant())
    return unsupported("multilabel_margin_loss: x must be [n, classes], but is ", x.shape());
  const Shape pairs = {single ? Dim(1) : x.dim(0), classes};
  x = term::reshape(x, pairs);
  target = term::reshape(target, pairs);
  const Value zero = g.scalar(int64_t{0}, i64);
  const Value ended = g.call("cumsum", {cast(lt(target, zero), i64)}, {{"dim", 1}});
  const Value valid = eq(ended, zero);
  const Value own = g.call("gather", {x, where(valid, target, zero)}, {{"dim", 1}});
  const Shape column = {pairs[0], classes, Dim(1)}, row = {pairs[0], Dim(1), classes};
  const Value each =
      g.call("arange", {}, {{"start", Dim(0)}, {"end", classes}, {"step", Dim(1)}, {"dtype", i64}});
  const Value hits = logical_and(eq(term::reshape(target, column), each),
                                 term::reshape(valid, column));  // [n, j, i]
  const Value is_target = hg::any(hits, {1}, false);             // [n, i]
  const Value over = relu(term::reshape(x, row) - term::reshape(own, column) + 1.0);
  const Value counted =
      logical_and(term::reshape(valid, column), logical_not(term::reshape(is_target, row)));
  const Value loss = hg::sum(where(counted, over, term::number(x, 0)), {1, 2}) /
                     static_cast<double>(classes.constant());
  c.set_out(1, cast(is_target, x.dtype()));
  return finish(c, single ? term::reshape(loss, {}) : loss);
}

// The reduction `mean` averages over all elements unless stated otherwise.
constexpr OpDef kOps[] = {
    // (x - target)^2
    {.signature = "mse_loss(x, target, reduction: str = \"mean\") -> y", .expand = mse},
    // |x - target|
    {.signature = "l1_loss(x, target, reduction: str = \"mean\") -> y", .expand = l1},
    // d^2 / (2 beta) where d = |x - target| < beta, otherwise d - beta / 2.
    {.signature = "smooth_l1_loss(x, target, beta: float = 1.0, reduction: str = \"mean\") -> y",
     .expand = smooth_l1},
    // d^2 / 2 where d = |x - target| <= delta, otherwise delta * (d - delta / 2).
    {.signature = "huber_loss(x, target, delta: float = 1.0, reduction: str = \"mean\") -> y",
     .expand = huber},
    // x and target: probabilities.
    {.signature = "binary_cross_entropy(x, target, weight?, reduction: str = \"mean\") -> y",
     .expand = bce},
    // x: logits, that is, sigmoid(x) are the probabilities.
    {.signature = "binary_cross_entropy_with_logits(x, target, weight?, pos_weight?, reduction: "
                  "str = \"mean\") -> y",
     .expand = bce_with_logits},
    // x: log probabilities. target: probabilities, or log probabilities if log_target.
    {.signature = "kl_div(x, target, log_target: bool = false, reduction: str = \"mean\") -> y",
     .expand = kl_div},
    // x: log probabilities [n, classes, ...]. target: class indices [n, ...]. weight: [classes].
    // The mean divides by `total`, the sum of the weights of the targets.
    // C++: Value nll_loss
    {.signature = "nll_loss(x, target, weight?, ignore_index: int = -100, reduction: str = "
                  "\"mean\") -> y, total",
     .expand = nll},
    // x: [n, classes, ...]. target: class indices [n, ...], or probabilities in the shape of x.
    // weight: [classes]. For indices, the mean divides by the sum of their weights.
    // C++: cross_entropy(x, target, CrossEntropyOptions)
    {.signature = "cross_entropy(x, target, weight?, ignore_index: int = -100, label_smoothing: "
                  "float = 0.0, reduction: str = \"mean\") -> y",
     .expand = cross_entropy},
    // x where target is 1; max(0, margin - x) where it is -1.
    {.signature = "hinge_embedding_loss(x, target, margin: float = 1.0, reduction: str = \"mean\") "
                  "-> y",
     .expand = hinge_embedding},
    // max(0, margin - target * (x1 - x2)); target: 1 or -1.
    {.signature = "margin_ranking_loss(x1, x2, target, margin: float = 0.0, reduction: str = "
                  "\"mean\") -> y",
     .expand = margin_ranking},
    // log(1 + e^(-target * x)); target: 1 or -1.
    {.signature = "soft_margin_loss(x, target, reduction: str = \"mean\") -> y",
     .expand = soft_margin},
    // 1 - cosine where target is 1; max(0, cosine - margin) where it is -1. x1, x2: [n, d] or [d].
    {.signature = "cosine_embedding_loss(x1, x2, target, margin: float = 0.0, reduction: str = "
                  "\"mean\") -> y",
     .expand = cosine_embedding},
    // e^x - target * x if log_input, otherwise x - target * log(x + eps). full adds Stirling's
    // approximation of log(target!) where target > 1.
    {.signature = "poisson_nll_loss(x, target, log_input: bool = true, full: bool = false, eps: "
                  "float = 1e-8, reduction: str = \"mean\") -> y",
     .expand = poisson_nll},
    // max(0, |anchor - positive| - |anchor - negative| + margin), with the p-norms of
    // pairwise_distance.
    // C++: triplet_margin_loss(anchor, positive, negative, TripletOptions)
    {.signature = "triplet_margin_loss(anchor, positive, negative, margin: float = 1.0, p: float = "
                  "2.0, eps: float = 1e-6, swap: bool = false, reduction: str = \"mean\") -> y",
     .expand = triplet_margin},
    // sum over j != target of weight[target] * max(0, margin - x[target] + x[j])^p / classes. x:
    // [n, classes], target: [n], weight: [classes]. p is 1 or 2.
    {.signature = "multi_margin_loss(x, target, weight?, p: float = 1.0, margin: float = 1.0, "
                  "reduction: str = \"mean\") -> y",
     .expand = multi_margin},
    // sum of max(0, 1 - x[j] + x[i]) / classes over the targets j, up to the first -1, and the
    // classes i that are not targets. x, target: [n, classes]. The second result marks the targets
    // among the classes, in x's dtype.
    {.signature = "multilabel_margin_loss(x, target, reduction: str = \"mean\") -> y, is_target",
     .expand = multilabel_margin},
};

}  // namespace

std::span<const OpDef> loss() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
