// SPDX-License-Identifier: Apache-2.0
// Builders match the signatures of their ops: those that are written by hand, and one of each form
// that cmake/emit_builders.cmake generates. A row calls the builder with all inputs and attributes
// of a sample, and then with only the required ones. The nodes equal those of Graph::calls.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "hg/hg.h"
#include "hg/op.h"
#include "hg_op_texts.h"
#include "lib/graph/internal_op.h"
#include "tests/ops/sample_case.h"

namespace hg::test {
namespace {

using Xs = std::vector<Value>;  // the op's inputs; Values beyond them are empty

// The attributes of a call, in the types that builders accept.
struct Args : AttrReader {
  explicit Args(const Node& node) : AttrReader(node.op, node.attrs) {}
  int n(std::string_view name) const { return static_cast<int>(integer(name).constant()); }
  std::vector<Dim> list(std::string_view name) const {
    return {integers(name).begin(), integers(name).end()};
  }
  std::vector<double> numbers(std::string_view name) const {
    return {reals(name).begin(), reals(name).end()};
  }
  std::optional<Dim> maybe_dim(std::string_view name) const {
    return has(name) ? std::optional(integer(name)) : std::nullopt;
  }
  std::optional<double> maybe_real(std::string_view name) const {
    return has(name) ? std::optional(real(name)) : std::nullopt;
  }
  Reduction reduction() const { return *parse_reduction(string("reduction")); }
  ConvOptions conv() const {
    return {list("stride"),    list("padding"),        list("dilation"),
            integer("groups"), list("output_padding"), *parse_activation(string("activation")),
            flag("exact")};
  }
  StepOptions step(const Value& accumulated, const Value& scale, const Value& go) const {
    return {accumulated,
            scale,
            go,
            n("group"),
            integer("first"),
            real("weight_decay"),
            maybe_real("clip_value"),
            flag("maximize")};
  }
};

// The inputs from `first` to the last one given.
Xs from(const Xs& x, size_t first) {
  Xs rest;
  for (size_t i = first; i < x.size() && x[i]; ++i) rest.push_back(x[i]);
  return rest;
}

using Call = void (*)(Graph& g, const Xs& x, const Args& a);
struct Row {
  std::string_view op;
  Call all;    // with every input and attribute
  Call least;  // with only the required ones
};

#define HG_CALL(...)                         \
  [](Graph& g, const Xs& x, const Args& a) { \
    (void)g, (void)x, (void)a;               \
    (void)(__VA_ARGS__);                     \
  }

const Row kRows[] = {
    // Written by hand.
    {"adam_step",
     HG_CALL(adam_step(x[0], x[1], x[2], x[5], x[6], x[7],
                       {x[3], a.real("beta1"), a.real("beta2"), a.real("eps"), a.flag("decoupled")},
                       a.step(x[4], x[8], x[9]))),
     HG_CALL(adam_step(x[0], x[1], x[2], x[5], x[6], x[7]))},
    {"conv",
     HG_CALL(a.flag("transposed") ? conv_transposed(x[0], x[1], x[2], a.conv(), x[3])
                                  : conv(x[0], x[1], x[2], a.conv(), x[3])),
     HG_CALL(conv(x[0], x[1]))},
    {"conv_integer",
     HG_CALL(conv_integer(
         x[0], x[1], {x[2], x[3], x[4], x[5], x[6]},
         {a.list("stride"), a.list("padding"), a.list("dilation"), a.integer("groups")})),
     HG_CALL(conv_integer(x[0], x[1]))},
    {"matmul_integer", HG_CALL(matmul_integer(x[0], x[1], {x[2], x[3], x[4], x[5], x[6]})),
     HG_CALL(matmul_integer(x[0], x[1]))},
    {"rmsprop_step",
     HG_CALL(rmsprop_step(x[0], x[1], x[5], x[6], x[7],
                          {x[2], x[3], a.real("alpha"), a.real("eps"), a.real("momentum")},
                          a.step(x[4], x[8], x[9]))),
     HG_CALL(rmsprop_step(x[0], x[1], x[5], x[6], x[7]))},
    {"sgd_step",
     HG_CALL(sgd_step(x[0], x[3], x[4], x[5],
                      {x[1], a.real("momentum"), a.real("dampening"), a.flag("nesterov")},
                      a.step(x[2], x[6], x[7]))),
     HG_CALL(sgd_step(x[0], x[3], x[4], x[5]))},
    // Generated: one of each form.
    {"add", HG_CALL(add(x[0], x[1])), HG_CALL(add(x[0], x[1]))},
    {"arange",
     HG_CALL(arange(g, a.integer("start"), a.integer("end"), a.integer("step"), a.dtype("dtype"))),
     HG_CALL(arange(g, a.integer("end")))},
    {"argmax", HG_CALL(argmax(x[0], a.maybe_dim("dim"), a.flag("keepdim"))), HG_CALL(argmax(x[0]))},
    {"attention",
     HG_CALL(attention(x[0], x[1], x[2], x[3], a.flag("causal"), a.maybe_real("scale"))),
     HG_CALL(attention(x[0], x[1], x[2]))},
    {"avg_pool",
     HG_CALL(avg_pool(x[0], a.list("kernel_size"),
                      {a.list("stride"), a.list("padding"), a.flag("ceil_mode"),
                       a.flag("count_include_pad"), a.maybe_dim("divisor_override")})),
     HG_CALL(avg_pool(x[0], a.list("kernel_size")))},
    {"batch_norm",
     HG_CALL(batch_norm(x[0], x[1], x[2], x[3], x[4], a.flag("training"), a.real("momentum"),
                        a.real("eps"))),
     HG_CALL(batch_norm(x[0], x[1], x[2], x[3], x[4]))},
    {"concat", HG_CALL(concat(from(x, 0), a.n("dim"))), HG_CALL(concat(from(x, 0)))},
    {"cross_entropy",
     HG_CALL(cross_entropy(
         x[0], x[1], {x[2], a.integer("ignore_index"), a.real("label_smoothing"), a.reduction()})),
     HG_CALL(cross_entropy(x[0], x[1]))},
    {"gru_scan", HG_CALL(gru_scan(x[0], x[1], x[2], x[3], a.flag("reverse"))),
     HG_CALL(gru_scan(x[0], x[1], x[2]))},
    {"index_put", HG_CALL(index_put(x[0], x[1], from(x, 2), a.flag("accumulate"))),
     HG_CALL(index_put(x[0], x[1], from(x, 2)))},
    {"interpolate",
     HG_CALL(interpolate(x[0], a.list("size"), *parse_interpolation(a.string("mode")),
                         a.flag("align_corners"), a.flag("antialias"), a.numbers("scales"))),
     HG_CALL(interpolate(x[0], a.list("size")))},
    {"layer_norm", HG_CALL(layer_norm(x[0], a.list("normalized_shape"), x[1], x[2], a.real("eps"))),
     HG_CALL(layer_norm(x[0], a.list("normalized_shape")))},
    {"max_pool_with_indices",
     HG_CALL(max_pool_with_indices(
         x[0], a.list("kernel_size"),
         {a.list("stride"), a.list("padding"), a.list("dilation"), a.flag("ceil_mode")})),
     HG_CALL(max_pool_with_indices(x[0], a.list("kernel_size")))},
    {"nll_loss", HG_CALL(nll_loss(x[0], x[1], x[2], a.integer("ignore_index"), a.reduction())),
     HG_CALL(nll_loss(x[0], x[1]))},
    {"nms", HG_CALL(nms(x[0], x[1], a.real("iou_threshold"), x[2], x[3])),
     HG_CALL(nms(x[0], x[1]))},
    {"roi_align",
     HG_CALL(roi_align(x[0], x[1], a.list("output_size"), a.real("spatial_scale"),
                       a.integer("sampling_ratio"), a.flag("aligned"), a.string("mode"))),
     HG_CALL(roi_align(x[0], x[1], a.list("output_size")))},
    {"std", HG_CALL(stddev(x[0], a.list("dim"), a.real("correction"), a.flag("keepdim"))),
     HG_CALL(stddev(x[0]))},
};

const Row* row_of(std::string_view op) {
  for (const Row& row : kRows)
    if (row.op == op) return &row;
  return nullptr;
}

// How a node made by a builder differs from the expected one.
std::string difference(const Node& made, const Node& expected) {
  if (made.op != expected.op) return str_cat("it is ", made.op->name());
  if (made.inputs != expected.inputs) return "its inputs are others";
  const auto& attributes = expected.op->signature.attributes;
  for (size_t i = 0; i < attributes.size(); ++i)
    if (!(made.attrs[i] == expected.attrs[i]))
      return str_cat(attributes[i].name, " is ", made.attrs[i], ", not ", expected.attrs[i]);
  return "";
}

// Compares the call of a builder, made in a copy of the graph, with the graph's last node.
std::string held_against(const Graph& with_node, const Graph& before, Call build) {
  const Node& expected = with_node.nodes().back();
  Graph g = before;
  Xs x;
  for (const ValueId id : expected.inputs) x.push_back(id == kNoValue ? Value() : Value(&g, id));
  x.resize(std::max<size_t>(x.size(), 12));
  const size_t nodes = g.nodes().size();
  build(g, x, Args(expected));
  if (!g.status().ok()) return std::string(g.status().message());
  if (g.nodes().size() != nodes + 1) return "it makes more than one node";
  return difference(g.nodes().back(), expected);
}

Attr default_of(const Signature::Attribute& attribute) { return attribute.fallback; }

// The attribute with another value.
Attr changed(const Attr& attr) {
  if (const bool* flag = std::get_if<bool>(&attr.value)) return Attr(!*flag);
  if (const Dim* dim = std::get_if<Dim>(&attr.value)) return Attr(*dim + 1);
  if (const double* real = std::get_if<double>(&attr.value)) return Attr(*real + 0.25);
  if (const auto* dims = std::get_if<std::vector<Dim>>(&attr.value)) {
    std::vector<Dim> more = *dims;
    for (Dim& dim : more) dim = dim + 1;
    return Attr(more);
  }
  return attr;
}

// What has been compared for one op.
struct Held {
  bool least = false;
  std::set<std::string> attributes;  // attributes that differed from their defaults
};

class Holder {
 public:
  void hold(const Sample& sample, DType floats) {
    const Result<std::unique_ptr<Case>> c = build(sample, floats);
    if (!c.ok()) return;
    const Row* const row = row_of(sample.op);
    if (row == nullptr) return;
    Held& held = held_[std::string(sample.op)];
    Graph before;
    for (const Input& input : (*c)->inputs)
      before.input(input.name, input.data.tensor.dtype, to_shape(input.data.tensor.shape));
    std::vector<Value> arguments;
    for (const int at : (*c)->input_of)
      arguments.push_back(at < 0 ? Value() : before.value(before.inputs()[at]));
    NamedAttrs attrs;
    const Node& node = (*c)->graph.nodes()[(*c)->node];
    const auto& attributes = node.op->signature.attributes;
    for (size_t i = 0; i < attributes.size(); ++i)
      attrs.push_back({attributes[i].name, node.attrs[i]});
    hold_all(*row, before, arguments, attrs, held);
    for (NamedAttr& attr : attrs) {
      const Attr kept = attr.value;
      attr.value = changed(kept);
      if (!(attr.value == kept)) hold_all(*row, before, arguments, attrs, held);
      attr.value = kept;
    }
    hold_least(*row, before, arguments, attrs, held);
  }
  const std::map<std::string, Held>& held() const { return held_; }

 private:
  // A call that the op rejects is not compared.
  void hold_all(const Row& row, const Graph& before, const std::vector<Value>& arguments,
                const NamedAttrs& attrs, Held& held) {
    Graph g = before;
    const Op& op = *g.registry().find(row.op);
    g.calls(row.op, moved(g, arguments), attrs);
    if (!g.status().ok()) return;
    const std::string wrong = held_against(g, before, row.all);
    EXPECT_EQ(wrong, "") << row.op;
    for (size_t i = 0; i < attrs.size(); ++i)
      if (op.signature.attributes[i].required ||
          !(g.nodes().back().attrs[i] == default_of(op.signature.attributes[i])))
        held.attributes.insert(op.signature.attributes[i].name);
  }
  // Adds one of the optional inputs for ops that need it.
  void hold_least(const Row& row, const Graph& before, const std::vector<Value>& arguments,
                  const NamedAttrs& attrs, Held& held) {
    const Signature& signature = before.registry().find(row.op)->signature;
    NamedAttrs required;
    for (size_t i = 0; i < attrs.size(); ++i)
      if (signature.attributes[i].required) required.push_back(attrs[i]);
    std::vector<Value> few = arguments;
    for (size_t i = 0; i < few.size() && i < signature.inputs.size(); ++i)
      if (signature.inputs[i].optional) few[i] = {};
    Graph g = before;
    g.calls(row.op, moved(g, few), required);
    if (g.status().ok()) {
      held.least = true;
      EXPECT_EQ(held_against(g, before, row.least), "") << row.op << " with what must be given";
      return;
    }
    g = before;
    g.calls(row.op, moved(g, arguments), required);
    held.least |= g.status().ok() && held_against(g, before, row.least).empty();
  }
  static std::vector<Value> moved(Graph& g, const std::vector<Value>& values) {
    std::vector<Value> there;
    for (const Value& value : values) there.push_back(value ? Value(&g, value.id()) : Value());
    return there;
  }
  std::map<std::string, Held> held_;
};

TEST(Builders, SayWhatTheSignaturesSay) {
  Holder holder;
  std::map<std::string_view, int> seen;
  for (const Sample& sample : all_samples()) {
    if (row_of(sample.op) == nullptr) continue;
    holder.hold(sample, f32);
    if (sample.has_floats() && ++seen[sample.op] < 3) holder.hold(sample, f64);
  }
  std::string never_short, never_varied;
  for (const Row& row : kRows) {
    const Op* const op = Registry::built_in().find(row.op);
    ASSERT_NE(op, nullptr) << row.op;
    const auto found = holder.held().find(std::string(row.op));
    ASSERT_NE(found, holder.held().end()) << row.op;
    if (!found->second.least) never_short += str_cat(" ", row.op);
    for (const Signature::Attribute& attribute : op->signature.attributes)
      if (!found->second.attributes.contains(attribute.name))
        never_varied += str_cat(" ", row.op, ".", attribute.name);
  }
  EXPECT_EQ(never_short, "") << "no sample does with what must be given";
  EXPECT_EQ(never_varied, "") << "no sample gives anything but the default";
}

// The script that generates the builders has read every row, and rows that users call have a text.
TEST(Builders, EveryOpIsDescribed) {
  std::set<std::string_view> read;
  for (const OpText& row : kOpTexts) {
    if (row.op.empty()) continue;
    read.insert(row.op);
    const Op* const op = Registry::built_in().find(row.op);
    ASSERT_NE(op, nullptr) << row.op;
    if ((op->def.traits & (kInternal | kControl)) == 0) {
      EXPECT_NE(row.text, "") << row.op << ": describe it above its row in lib/ops";
    }
  }
  for (const Op* op : Registry::built_in().ops())
    EXPECT_TRUE(read.contains(op->name())) << op->name();
}

// Builders without a sample.
TEST(Builders, OfComplexTensorsAndControlFlow) {
  std::set<std::string_view> built;
  Graph g;
  const auto last = [&] { built.insert(g.nodes().back().op->name()); };
  view_as_real(g.input("c", c64, {2}));
  last();
  view_as_complex(g.input("r", f32, {2, 2}));
  last();
  const auto same = [](Graph&, std::span<const Value> xs) { return Xs(xs.begin(), xs.end()); };
  cond(g.input("p", boolean, {}), {g.input("x", f32, {"n"})}, same, same);
  last();
  while_loop(
      {g.input("i", i64, {})}, {},
      [](Graph&, std::span<const Value> xs) { return Xs{lt(xs[0], number_like(xs[0], 3))}; },
      [](Graph&, std::span<const Value> xs) { return Xs{xs[0] + 1}; });
  last();
  EXPECT_TRUE(g.status().ok()) << g.status().message();
  for (const Op* op : Registry::built_in().ops())
    if (op->def.traits & (kControl | kComplex)) {
      EXPECT_TRUE(built.contains(op->name())) << op->name();
    }
}

}  // namespace
}  // namespace hg::test
