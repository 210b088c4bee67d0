// SPDX-License-Identifier: Apache-2.0
// Losses.
#include "converter/rows/rows.h"
#include "converter/rows/scalar.h"
#include "hg/ops/compare.h"
#include "hg/ops/pointwise.h"
#include "hg/promotion.h"

namespace hg::convert::rows {
namespace {

using Values = std::vector<Value>;

std::string reduction(Call& call) {
  const int64_t kind = call.number("reduction", 1);
  if (kind < 0 || kind > 2) call.refuse("reduction", "must be 0, 1 or 2");
  const char* names[] = {"none", "mean", "sum"};
  return names[kind];
}

NamedAttrs reduced(Call& call, NamedAttrs attrs = {}) {
  attrs.push_back({"reduction", reduction(call)});
  return attrs;
}

// Losses of two tensors: aten::mse_loss becomes "mse_loss".
void of_two(Call& call, const std::vector<NamedReal>& numbers = {}, NamedAttrs attrs = {}) {
  const Values v = call.promoted({"self", "target"});
  std::string_view op = call.kind();
  op.remove_prefix(op.find("::") + 2);
  call.returns(call_with(call.graph(), op, {v[0], v[1]}, numbers, reduced(call, std::move(attrs))));
}

// Torch computes in the promoted dtype and rounds the result to the dtype of one of its tensors.
Value reduced_as(Call& call, const Value& loss, DType dtype) {
  const std::string kind = reduction(call);
  const Value rounded = convert::cast(loss, dtype);
  if (kind == "none") return rounded;
  if (kind == "mean" && !is_float(dtype))
    call.refuse("reduction", "is the mean of integers, which PyTorch does not take");
  return call.graph().call(kind, {rounded}, {{"dim", std::vector<Dim>{}}, {"keepdim", false}});
}

bool have_one_dtype(Call& call, std::initializer_list<std::string_view> names) {
  std::optional<DType> first;
  for (const std::string_view name : names) {
    const Value value = call.has(name) ? call.tensor(name) : Value();
    if (!value) continue;
    if (first && value.dtype() != *first) return false;
    first = value.dtype();
  }
  return true;
}

// Applies an op to two tensors in the dtype of torch's promotion.
Value apply(std::string_view op, const Value& a, const Value& b) {
  Promotion promotion;
  promotion.add_tensor(a.dtype(), a.rank());
  promotion.add_tensor(b.dtype(), b.rank());
  const DType dtype = promotion.result();
  return a.graph()->call(op, {convert::cast(a, dtype), convert::cast(b, dtype)});
}
// The same for an op in place, which rounds to the dtype of `a`.
Value apply_in_place(std::string_view op, const Value& a, const Value& b) {
  return convert::cast(apply(op, a, b), a.dtype());
}

// For losses that torch composes of other ops, each of which rounds to its own dtype.
void returns_reduced(Call& call, const Value& loss) {
  call.returns(reduced_as(call, loss, loss.dtype()));
}

void expect_floats(Call& call, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const Value value = call.tensor(name); !is_float(value.dtype()))
      call.refuse(name,
                  str_cat("is ", to_string(value.dtype()), ", which PyTorch does not take there"));
}

// PyTorch has no integer kernel.
void of_two_with_a_float(Call& call, const std::vector<NamedReal>& numbers = {}) {
  if (!is_float(call.tensor("target").dtype())) expect_floats(call, {"self"});
  of_two(call, numbers);
}

void mse(Call& call) { of_two_with_a_float(call); }
void l1(Call& call) {
  const Values v = call.promoted({"self", "target"});
  if (is_float(v[0].dtype())) return of_two(call);
  returns_reduced(call, call.graph().call("abs", {call.graph().call("sub", v)}));
}
void smooth_l1(Call& call) { of_two_with_a_float(call, {{"beta", scalar(call, "beta", 1.0)}}); }
void huber(Call& call) {
  expect_floats(call, {"self"});
  const std::vector<NamedReal> delta = {{"delta", scalar(call, "delta", 1.0)}};
  if (have_one_dtype(call, {"self", "target"})) return of_two(call, delta);
  const Values v = call.promoted({"self", "target"});
  const Value loss = call_with(call.graph(), "huber_loss", {v[0], v[1]}, delta,
                               {{"reduction", std::string("none")}});
  call.returns(reduced_as(call, loss, call.tensor("self").dtype()));
}
void kl_div(Call& call) {
  expect_floats(call, {"self", "target"});
  const bool log_target = call.flag("log_target", false);
  if (have_one_dtype(call, {"self", "target"}))
    return of_two(call, {}, {{"log_target", log_target}});
  Graph& g = call.graph();
  const Value x = call.tensor("self"), target = call.tensor("target");
  returns_reduced(
      call, log_target ? apply("mul", g.call("exp", {target}), apply("sub", target, x))
                       : apply("sub", g.call("xlogy", {target, target}), apply("mul", target, x)));
}
// eq or ne of a tensor and a number. torch compares a bool as an integer, and a u8 with the wrapped
// number, such as 255 for -1. The target selects one of two terms and does not affect the dtype.
Value compared(std::string_view op, const Value& target, int64_t number) {
  const Value x = target.dtype() == boolean ? convert::cast(target, i64) : target;
  return x.graph()->call(op, {x, convert::cast(x.graph()->scalar(number, i64), x.dtype())});
}

void hinge_embedding(Call& call) {
  Graph& g = call.graph();
  const Value x = call.tensor("self"), target = call.tensor("target");
  const Real margin = scalar(call, "margin", 1.0);
  if (is_float(x.dtype()) && x.dtype() == target.dtype()) return of_two(call, {{"margin", margin}});
  const Value zero = g.scalar(int64_t{0}, x.dtype());
  const Value limit = convert::cast(margin.as(g, f64), x.dtype());
  const auto where_not = [&](int64_t sign, const Value& term) {
    return g.call("where", {compared("ne", target, sign), term, zero});
  };
  const Value apart = g.call("maximum", {g.call("sub", {limit, x}), zero});
  returns_reduced(call, g.call("add", {where_not(1, apart), where_not(-1, x)}));
}
// torch computes the product in place, so it has the dtype of self.
void soft_margin(Call& call) {
  expect_floats(call, {"self"});
  if (have_one_dtype(call, {"self", "target"})) return of_two(call);
  const Values v = call.promoted({"self", "target"});
  const Value product =
      convert::cast(call.graph().call("mul", {v[0], v[1]}), call.tensor("self").dtype());
  const Value one = call.graph().scalar(1.0, product.dtype());
  call.returns(call.graph().call("soft_margin_loss", {product, one}, reduced(call)));
}

void binary_cross_entropy(Call& call) {
  expect_floats(call, {"self", "target"});
  if (call.tensor("self").dtype() != call.tensor("target").dtype())
    call.refuse("target", "differs in dtype from self, which PyTorch does not accept");
  const Values v = call.promoted({"self", "target", "weight"});
  call.returns(call.graph().call("binary_cross_entropy", v, reduced(call)));
}
void bce_with_logits(Call& call) {
  expect_floats(call, {"self", "target"});
  if (have_one_dtype(call, {"self", "target", "weight", "pos_weight"})) {
    const Values v = call.promoted({"self", "target", "weight", "pos_weight"});
    return call.returns(call.graph().call("binary_cross_entropy_with_logits", v, reduced(call)));
  }
  Graph& g = call.graph();
  const Value x = call.tensor("self"), target = call.tensor("target");
  const auto one = [&](const Value& like) { return g.scalar(int64_t{1}, like.dtype()); };
  Value positive = g.call("log_sigmoid", {x});
  if (const Value weight = call.tensor_or_none("pos_weight")) {
    const Value more = apply("mul", g.call("sub", {weight, one(weight)}), target);
    positive = apply_in_place("mul", positive, g.call("add", {more, one(more)}));
  }
  Value loss = apply_in_place("mul", g.call("sub", {one(target), target}), x);
  loss = apply_in_place("sub", loss, positive);
  if (const Value weight = call.tensor_or_none("weight"))
    loss = apply_in_place("mul", loss, weight);
  returns_reduced(call, loss);
}

void margin_ranking(Call& call) {
  const Values v = call.promoted({"input1", "input2", "target"}, true);
  call.returns(call_with(call.graph(), "margin_ranking_loss", v,
                         {{"margin", scalar(call, "margin", 0.0)}}, reduced(call)));
}

void cosine_embedding(Call& call) {
  Graph& g = call.graph();
  const Value x = call.tensor("input1"), y = call.tensor("input2"), target = call.tensor("target");
  const Real margin = scalar(call, "margin", 0.0);
  if (is_float(x.dtype()) && have_one_dtype(call, {"input1", "input2", "target"}))
    return call.returns(
        call_with(g, "cosine_embedding_loss", {x, y, target}, {{"margin", margin}}, reduced(call)));
  const auto summed = [&](const Value& a, const Value& b) {
    const Value product = apply("mul", a, b);
    const DType wide = is_float(product.dtype()) ? product.dtype() : i64;
    return g.call("sum", {convert::cast(product, wide)},
                  {{"dim", std::vector<Dim>{target.rank()}}, {"keepdim", false}});
  };
  const auto floats = [&](const Value& v) {
    return is_float(v.dtype()) ? v : convert::cast(v, f32);
  };
  const auto size = [&](const Value& v) {
    const Value sum = floats(summed(v, v));
    return g.call("add", {sum, g.scalar(double{1e-12f}, sum.dtype())});
  };
  const Value root = g.call("sqrt", {apply("mul", size(x), size(y))});
  const Value cosine = apply("div", floats(summed(x, y)), root);
  const auto number = [&](double value) { return g.scalar(value, cosine.dtype()); };
  const auto where_is = [&](int64_t sign, const Value& term) {
    return g.call("where", {compared("eq", target, sign), term, number(0)});
  };
  const Value near = g.call("sub", {number(1), cosine});
  const Value far = g.call("maximum", {cosine - margin, number(0)});
  returns_reduced(call, g.call("add", {where_is(1, near), where_is(-1, far)}));
}

void poisson_nll(Call& call) {
  const Values v = call.promoted({"input", "target"}, true);
  const bool log_input = call.flag("log_input", true);  // then eps is not used
  call.returns(
      call_with(call.graph(), "poisson_nll_loss", v,
                {{"eps", log_input ? Real(1e-8) : scalar(call, "eps", 1e-8)}},
                reduced(call, {{"log_input", log_input}, {"full", call.flag("full", false)}})));
}

void triplet_margin(Call& call) {
  const Values v = call.promoted({"anchor", "positive", "negative"}, true);
  call.returns(call_with(call.graph(), "triplet_margin_loss", v,
                         {{"margin", scalar(call, "margin", 1.0)},
                          {"p", scalar(call, "p", 2.0)},
                          {"eps", scalar(call, "eps", 1e-6)}},
                         reduced(call, {{"swap", call.flag("swap", false)}})));
}

void multi_margin(Call& call) {
  call.returns(call_with(
      call.graph(), "multi_margin_loss",
      {call.tensor("self"), call.tensor("target"), call.tensor_or_none("weight")},
      {{"margin", scalar(call, "margin", 1.0)}}, reduced(call, {{"p", call.real("p", 1.0)}})));
}

Values multilabel_margin_of(Call& call) {
  Values out = call.graph().calls("multilabel_margin_loss",
                                  {call.tensor("self"), call.tensor("target")}, reduced(call));
  if (out.size() == 2)  // reshaped to the shape of self
    out[1] = call.graph().call("reshape", {out[1]}, {{"shape", call.tensor("self").shape()}});
  return out;
}
void multilabel_margin(Call& call) { call.returns(multilabel_margin_of(call).at(0)); }
void multilabel_margin_forward(Call& call) { call.returns(multilabel_margin_of(call)); }

// The class to ignore. If data decides it, such targets become a number that no class has.
int64_t ignored(Call& call, Value& target) {
  if (!call.is_of_data("ignore_index")) return call.number("ignore_index", -100);
  constexpr int64_t kNoClass = -(int64_t{1} << 62);
  const Value classes = convert::cast(call.tensor("ignore_index"), i64);
  target = convert::cast(target, i64);
  target = where(eq(target, classes), target.graph()->scalar(kNoClass, i64), target);
  return kNoClass;
}

Values nll_of(Call& call) {
  const Value x = call.tensor("self");
  const Value weight = call.tensor_or_none("weight");
  Value target = call.tensor("target");
  const Dim ignore = ignored(call, target);
  return call.graph().calls("nll_loss", {x, target, weight},
                            reduced(call, {{"ignore_index", ignore}}));
}
void nll(Call& call) { call.returns(nll_of(call).at(0)); }
void nll_forward(Call& call) { call.returns(nll_of(call)); }

void cross_entropy(Call& call) {
  const Value x = call.tensor("self");
  Value target = call.tensor("target");
  const bool has_classes = !is_float(target.dtype());  // otherwise probabilities
  if (!has_classes) target = convert::cast(target, x.dtype());
  const Dim ignore = has_classes ? ignored(call, target) : -100;
  call.returns(call_with(call.graph(), "cross_entropy", {x, target, call.tensor_or_none("weight")},
                         {{"label_smoothing", scalar(call, "label_smoothing", 0.0)}},
                         reduced(call, {{"ignore_index", ignore}})));
}

// Returns lengths as an i64 tensor, from a number, a list or a tensor.
Value lengths(Call& call, std::string_view argument) {
  const Item* item = call.find(argument);
  Graph& g = call.graph();
  if (item != nullptr && item->is_tensor()) {
    const Value v = convert::cast(call.tensor(argument), i64);
    return g.call("reshape", {v}, {{"shape", Shape{count(v.shape())}}});
  }
  const std::vector<Dim> numbers = call.integers(argument);
  Result<TensorData> data = TensorData::allocate(i64, {static_cast<int64_t>(numbers.size())});
  if (!data.ok()) return g.fail(data.status());
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!numbers[i].is_constant()) call.refuse(argument, "must be known numbers");
    data->tensor.as<int64_t>()[i] = numbers[i].constant();
  }
  return g.constant(*std::move(data));
}

// For the mean, each sample's loss is first divided by the length of its target.
void ctc_loss(Call& call) {
  Graph& g = call.graph();
  Value x = call.tensor("log_probs");
  Value targets = convert::cast(call.tensor("targets"), i64);
  const bool single = x.rank() == 2;
  if (single) x = g.call("reshape", {x}, {{"shape", Shape{x.dim(0), Dim(1), x.dim(1)}}});
  const Value target_lengths = lengths(call, "target_lengths");
  Value loss = g.call(
      "ctc_loss", {x, targets, lengths(call, "input_lengths"), target_lengths},
      {{"blank", call.integer("blank", 0)}, {"zero_infinity", call.flag("zero_infinity", false)}});
  const std::string kind = reduction(call);
  const NamedAttrs all = {{"dim", std::vector<Dim>{}}, {"keepdim", false}};
  if (kind == "mean") {
    const Value whole = g.call("maximum", {target_lengths, g.scalar(int64_t{1}, i64)});
    loss = g.call("mean", {g.call("div", {loss, convert::cast(whole, loss.dtype())})}, all);
  } else if (kind == "sum") {
    loss = g.call("sum", {loss}, all);
  } else if (single) {
    loss = g.call("reshape", {loss}, {{"shape", Shape{}}});
  }
  call.returns(loss);
}

constexpr SharedTraits kShared = {.layout = ResultLayout::kept};
constexpr Row kRows[] = {
    {.op = "aten::ctc_loss",
     .run = ctc_loss,
     .numbers = {{{"input_lengths", DrawnNumbers::lengths},
                  {"target_lengths", DrawnNumbers::lengths}}}},
    {"aten::mse_loss", mse},
    {"aten::l1_loss", l1},
    {"aten::smooth_l1_loss", smooth_l1},
    {"aten::huber_loss", huber},
    {"aten::kl_div", kl_div},
    {"aten::hinge_embedding_loss", hinge_embedding},
    {"aten::soft_margin_loss", soft_margin},
    {"aten::binary_cross_entropy", binary_cross_entropy},
    {"aten::binary_cross_entropy_with_logits", bce_with_logits},
    {"aten::margin_ranking_loss", margin_ranking},
    {"aten::cosine_embedding_loss", cosine_embedding},
    {"aten::poisson_nll_loss", poisson_nll},
    {"aten::triplet_margin_loss", triplet_margin},
    {"aten::multi_margin_loss", multi_margin},
    {"aten::multilabel_margin_loss", multilabel_margin},
    {"aten::multilabel_margin_loss_forward", multilabel_margin_forward},
    {"aten::nll_loss", nll},
    {"aten::nll_loss_nd", nll},
    {"aten::nll_loss2d", nll},
    {"aten::nll_loss_forward", nll_forward},
    {"aten::nll_loss2d_forward", nll_forward},
    {"aten::cross_entropy_loss", cross_entropy},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> loss() { return kTable; }

}  // namespace hg::convert::rows
