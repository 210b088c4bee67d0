// SPDX-License-Identifier: Apache-2.0
#include "lib/graph/real.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "hg/ops/pointwise.h"
#include "lib/graph/access.h"

namespace hg {

Value Real::as(Graph& graph, DType dtype) const {
  if (is_known()) return graph.scalar(known_, dtype);
  return value_.dtype() == dtype ? value_ : cast(value_, dtype);
}

Value Real::like(const Value& x) const {
  if (is_known()) return number_like(x, known_);
  if (!is_float(x.dtype()))
    return x.graph()->fail(
        invalid_argument("a float that data decides does not fit a tensor of ", x.dtype()));
  return as(*x.graph(), x.dtype());
}

namespace {

Real computed(std::string_view op, const Real& a, const Real& b) {
  Graph& g = *(a.is_known() ? b : a).value().graph();
  return Real(g.call(op, {a.as(g, f64), b.as(g, f64)}));
}

}  // namespace

Real operator+(const Real& a, const Real& b) {
  return a.is_known() && b.is_known() ? Real(a.known() + b.known()) : computed("add", a, b);
}
Real operator-(const Real& a, const Real& b) {
  return a.is_known() && b.is_known() ? Real(a.known() - b.known()) : computed("sub", a, b);
}
Real operator*(const Real& a, const Real& b) {
  return a.is_known() && b.is_known() ? Real(a.known() * b.known()) : computed("mul", a, b);
}
Real operator/(const Real& a, const Real& b) {
  return a.is_known() && b.is_known() ? Real(a.known() / b.known()) : computed("div", a, b);
}

// expanded_with() appends one attribute {index of the attribute, value id} for each attribute that
// the graph computes.
Real real(const ExpandContext& c, std::string_view attr) {
  const AttrReader& attrs = c.attrs();
  const Signature& signature = attrs.op().signature;
  const Dim place = signature.find_attribute(attr);
  for (const Attr& each : attrs.all().subspan(signature.attributes.size()))
    if (const auto* bound = std::get_if<std::vector<Dim>>(&each.value); (*bound)[0] == place)
      return Real(c.graph().value(static_cast<ValueId>((*bound)[1].constant())));
  return attrs.real(attr);
}

namespace {

bool is_16_bits(DType dtype) { return dtype == f16 || dtype == bf16; }

Result<std::vector<Value>> expanded_with(Graph& g, std::string_view name,
                                         const std::vector<Value>& inputs,
                                         const std::vector<NamedReal>& reals,
                                         const NamedAttrs& attrs) {
  Node node;
  node.op = g.registry().find(name);
  if (node.op == nullptr || node.op->def.expand == nullptr)
    return unsupported(name, ": needs float attributes that are known");
  HG_TRY_ASSIGN(node.attrs, GraphAccess::normalize_attrs(*node.op, attrs));
  for (const Value& input : inputs)
    node.inputs.push_back((input && is_16_bits(input.dtype()) ? cast(input, f32) : input).id());
  node.inputs.resize(std::max(node.inputs.size(), node.op->signature.inputs.size()), kNoValue);
  HG_TRY(g.status());
  if (node.op->def.infer != nullptr)
    HG_TRY(GraphAccess::infer(GraphAccess::infer_call(g, node)).status());
  std::vector<Value> values;  // one value per attribute, to detect unused ones
  for (const NamedReal& real : reals) {
    if (real.value.is_known()) continue;
    values.push_back(g.call("reshape", {real.value.value()}, {{"shape", Shape()}}));
    node.attrs.push_back({Dim(node.op->signature.find_attribute(real.name)), values.back().id()});
  }
  const size_t first = g.nodes().size();
  HG_TRY_ASSIGN(std::vector<Value> outputs, GraphAccess::expand(g, node));
  for (const Value& value : values)
    if (std::none_of(g.nodes().begin() + static_cast<ptrdiff_t>(first), g.nodes().end(),
                     [&](const Node& each) {
                       return std::find(each.inputs.begin(), each.inputs.end(), value.id()) !=
                              each.inputs.end();
                     }))
      return unsupported(name, ": a float attribute must be known, but data decides it");
  if (const DType dtype = inputs[0].dtype(); is_16_bits(dtype))
    for (Value& output : outputs)
      if (output.dtype() == f32) output = cast(output, dtype);
  return outputs;
}

}  // namespace

std::vector<Value> calls_with(Graph& graph, std::string_view op, const std::vector<Value>& inputs,
                              const std::vector<NamedReal>& reals, NamedAttrs attrs) {
  bool is_known = true;
  for (const NamedReal& real : reals) {
    is_known &= real.value.is_known();
    attrs.push_back({real.name, real.value.is_known() ? real.value.known() : std::nan("")});
  }
  if (is_known) return graph.calls(op, inputs, attrs);
  Result<std::vector<Value>> outputs = expanded_with(graph, op, inputs, reals, attrs);
  if (outputs.ok()) return *std::move(outputs);
  return {graph.fail(outputs.status())};
}

Value call_with(Graph& graph, std::string_view op, const std::vector<Value>& inputs,
                const std::vector<NamedReal>& reals, NamedAttrs attrs) {
  return calls_with(graph, op, inputs, reals, std::move(attrs)).at(0);
}

}  // namespace hg
