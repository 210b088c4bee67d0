// SPDX-License-Identifier: Apache-2.0
// Losses.
#include "converter/rows/rows.h"

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

// Losses of two tensors, "mse_loss" for aten::mse_loss.
void of_two(Call& call, NamedAttrs attrs = {}, bool float_result = false) {
  const Values v = call.promoted({"self", "target"}, float_result);
  std::string_view op = call.kind();
  op.remove_prefix(op.find("::") + 2);
  call.returns(call.graph().call(op, {v[0], v[1]}, reduced(call, std::move(attrs))));
}

// Torch rounds what it computes in the promoted dtype to that of one of its tensors.
Value reduced_as(Call& call, const Value& loss, DType dtype) {
  const std::string kind = reduction(call);
  const Value rounded = cast(loss, dtype);
  if (kind == "none") return rounded;
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

void expect_floats(Call& call, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const Value value = call.tensor(name); !is_float(value.dtype()))
      call.refuse(name, str_cat("is ", name_of(value.dtype()), ", which PyTorch does not take there"));
}

void mse(Call& call) { of_two(call); }
void l1(Call& call) { of_two(call); }
void smooth_l1(Call& call) { of_two(call, {{"beta", call.real("beta", 1.0)}}); }
void huber(Call& call) {
  expect_floats(call, {"self"});
  const NamedAttrs delta = {{"delta", call.real("delta", 1.0)}};
  if (have_one_dtype(call, {"self", "target"})) return of_two(call, delta);
  const Values v = call.promoted({"self", "target"});
  const Value loss = call.graph().call("huber_loss", {v[0], v[1]},
                                       {delta[0], {"reduction", std::string("none")}});
  call.returns(reduced_as(call, loss, call.tensor("self").dtype()));
}
void kl_div(Call& call) {
  expect_floats(call, {"self", "target"});
  of_two(call, {{"log_target", call.flag("log_target", false)}});
}
void hinge_embedding(Call& call) { of_two(call, {{"margin", call.real("margin", 1.0)}}, true); }
// In place in torch, so that the product has the dtype of self, too.
void soft_margin(Call& call) {
  expect_floats(call, {"self"});
  if (have_one_dtype(call, {"self", "target"})) return of_two(call);
  const Values v = call.promoted({"self", "target"});
  const Value product = cast(call.graph().call("mul", {v[0], v[1]}), call.tensor("self").dtype());
  const Value one = call.graph().scalar(1.0, product.dtype());
  call.returns(call.graph().call("soft_margin_loss", {product, one}, reduced(call)));
}

void binary_cross_entropy(Call& call) {
  expect_floats(call, {"self", "target"});
  if (call.tensor("self").dtype() != call.tensor("target").dtype())
    call.refuse("target", "has another dtype than self, which PyTorch does not take there");
  const Values v = call.promoted({"self", "target", "weight"});
  call.returns(call.graph().call("binary_cross_entropy", v, reduced(call)));
}
void bce_with_logits(Call& call) {
  expect_floats(call, {"self", "target"});
  const Values v = call.promoted({"self", "target", "weight", "pos_weight"});
  call.returns(call.graph().call("binary_cross_entropy_with_logits", v, reduced(call)));
}

void margin_ranking(Call& call) {
  const Values v = call.promoted({"input1", "input2", "target"}, true);
  call.returns(call.graph().call("margin_ranking_loss", v,
                                 reduced(call, {{"margin", call.real("margin", 0.0)}})));
}

// Integer inputs become f32 before the products, where torch computes them in whole numbers and so
// gets the same for all that f32 holds.
void cosine_embedding(Call& call) {
  const Values v = call.promoted({"input1", "input2", "target"}, true);
  call.returns(call.graph().call("cosine_embedding_loss", v,
                                 reduced(call, {{"margin", call.real("margin", 0.0)}})));
}

void poisson_nll(Call& call) {
  const Values v = call.promoted({"input", "target"}, true);
  call.returns(call.graph().call("poisson_nll_loss", v,
                                 reduced(call, {{"log_input", call.flag("log_input", true)},
                                                {"full", call.flag("full", false)},
                                                {"eps", call.real("eps", 1e-8)}})));
}

void triplet_margin(Call& call) {
  const Values v = call.promoted({"anchor", "positive", "negative"}, true);
  call.returns(call.graph().call("triplet_margin_loss", v,
                                 reduced(call, {{"margin", call.real("margin", 1.0)},
                                                {"p", call.real("p", 2.0)},
                                                {"eps", call.real("eps", 1e-6)},
                                                {"swap", call.flag("swap", false)}})));
}

void multi_margin(Call& call) {
  call.returns(call.graph().call(
      "multi_margin_loss",
      {call.tensor("self"), call.tensor("target"), call.tensor_or_none("weight")},
      reduced(call, {{"p", call.real("p", 1.0)}, {"margin", call.real("margin", 1.0)}})));
}

Values multilabel_margin_of(Call& call) {
  Values out = call.graph().calls("multilabel_margin_loss",
                                  {call.tensor("self"), call.tensor("target")}, reduced(call));
  if (out.size() == 2)  // in the shape of self
    out[1] = call.graph().call("reshape", {out[1]}, {{"shape", call.tensor("self").shape()}});
  return out;
}
void multilabel_margin(Call& call) { call.returns(multilabel_margin_of(call).at(0)); }
void multilabel_margin_forward(Call& call) { call.returns(multilabel_margin_of(call)); }

Values nll_of(Call& call) {
  const Value x = call.tensor("self");
  const Value weight = call.tensor_or_none("weight");
  return call.graph().calls("nll_loss", {x, call.tensor("target"), weight},
                            reduced(call, {{"ignore_index", call.integer("ignore_index", -100)}}));
}
void nll(Call& call) { call.returns(nll_of(call).at(0)); }
void nll_forward(Call& call) { call.returns(nll_of(call)); }

void cross_entropy(Call& call) {
  const Value x = call.tensor("self");
  Value target = call.tensor("target");
  if (is_float(target.dtype())) target = cast(target, x.dtype());
  call.returns(
      call.graph().call("cross_entropy", {x, target, call.tensor_or_none("weight")},
                        reduced(call, {{"ignore_index", call.integer("ignore_index", -100)},
                                       {"label_smoothing", call.real("label_smoothing", 0.0)}})));
}

// Lengths as an i64 tensor, from one or from a list of numbers.
Value lengths(Call& call, std::string_view argument) {
  const Item* item = call.find(argument);
  Graph& g = call.graph();
  if (item != nullptr && item->is_tensor()) {
    const Value v = cast(call.tensor(argument), i64);
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

// The mean divides each sample's loss by the length of its target first.
void ctc_loss(Call& call) {
  Graph& g = call.graph();
  Value x = call.tensor("log_probs");
  Value targets = cast(call.tensor("targets"), i64);
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
    loss = g.call("mean", {g.call("div", {loss, cast(whole, loss.dtype())})}, all);
  } else if (kind == "sum") {
    loss = g.call("sum", {loss}, all);
  } else if (single) {
    loss = g.call("reshape", {loss}, {{"shape", Shape{}}});
  }
  call.returns(loss);
}

constexpr SharedTraits kShared = {.layout = ResultLayout::kept};
constexpr Row kRows[] = {
    {"aten::ctc_loss", ctc_loss},
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
