// SPDX-License-Identifier: Apache-2.0
// Contexts of op functions: run a shape rule, an expansion or a gradient rule on a node.
#include <algorithm>

#include "lib/graph/access.h"
#include "lib/graph/assumptions.h"
#include "lib/graph/overflows.h"

namespace hg {
namespace {

// The first complex type among those of the call, or null.
template <class Types>
const TensorType* complex_of(const Types& types) {
  for (const auto& each : types) {
    const TensorType* type;
    if constexpr (std::is_pointer_v<std::decay_t<decltype(each)>>)
      type = each;
    else
      type = &each;
    if (type != nullptr && is_complex(type->dtype)) return type;
  }
  return nullptr;
}

std::string label_of(const Op& op, const Origin* origin, std::string_view value) {
  if (origin != nullptr && !origin->module.empty())
    return str_cat(op.name(), " '", origin->module, "'");
  if (!value.empty()) return str_cat(op.name(), " '", value, "'");
  return std::string(op.name());
}

}  // namespace

std::string label(const Graph& graph, const Node& node) {
  return label_of(*node.op, &node.origin,
                  node.outputs.empty() ? std::string_view()
                                       : std::string_view(graph.value_info(node.outputs[0]).name));
}

Result<int> normalize_axis(int64_t axis, int rank) {
  const int64_t limit = rank == 0 ? 1 : rank;
  HG_CHECK(axis >= -limit && axis < limit, "dim ", axis, " is not in [", -limit, ", ", limit - 1,
           "] of rank ", rank);
  return static_cast<int>(axis < 0 ? axis + limit : axis);
}

namespace {

Result<int> axis_of(const Dim& dim, std::string_view attr, int rank) {
  HG_CHECK(dim.is_constant(), "'", attr, "' must be a constant dim, but is ", dim,
           ", which is known only at run time");
  return normalize_axis(dim.constant(), rank);
}

// Whether y may be a repetition of x or x itself, depending on sizes.
bool may_be_repeated(const Dim& x, const Dim& y) {
  if (x == y || x.is_constant()) return false;
  const Result<Shape> both = broadcast({x}, {y});
  if (both.ok() && (*both)[0] == y) return true;
  std::vector<std::string> of_x, of_y;
  x.collect_symbols(of_x);
  y.collect_symbols(of_y);
  return std::any_of(of_y.begin(), of_y.end(), [&](const std::string& symbol) {
    return std::find(of_x.begin(), of_x.end(), symbol) == of_x.end();
  });
}

}  // namespace

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape out = a;
  HG_TRY(broadcast_onto(b, out));
  return out;
}

Status broadcast_onto(const Shape& b, Shape& a) {
  for (size_t k = 1; k <= std::min(a.size(), b.size()); ++k) {  // from the last dim
    const Dim &x = a[a.size() - k], &y = b[b.size() - k];
    if (x.is_constant() && y.is_constant() && !(x == y) && !(x == Dim(1)) && !(y == Dim(1)))
      return invalid_argument("shapes ", a, " and ", b, " do not broadcast: ", x, " is not ", y);
  }
  if (a.size() < b.size()) a.insert(a.begin(), b.size() - a.size(), Dim(1));
  for (size_t k = 1; k <= b.size(); ++k) {
    Dim& x = a[a.size() - k];
    const Dim& y = b[b.size() - k];
    if (x == y || y == Dim(1)) continue;
    if (x == Dim(1) || (y.is_constant() && !x.is_constant()))
      x = y;
    else if (!x.is_constant())
      x = broadcast_size(x, y);
  }
  return {};
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_float(a)) {
    if (a == f64 || b == f64) return f64;
    return f32;  // f32 with a 16-bit float, or f16 with bf16
  }
  if (a == boolean) return b;
  if (b == boolean) return a;
  if (a == u8 || b == u8) {  // the smallest signed type that holds both
    const DType other = a == u8 ? b : a;
    return other == i8 ? i16 : other;
  }
  return size_of(a) > size_of(b) ? a : b;
}

bool InferContext::has(int i) const { return i < input_count() && inputs_[i] != nullptr; }

Result<int> InferContext::axis(std::string_view attr, int rank) const {
  Result<int> axis = axis_of(attrs_.integer(attr), attr, rank);
  if (!axis.ok()) return fail(axis.status().message());
  return axis;
}

Result<std::vector<int>> InferContext::axes(std::string_view attr, int rank) const {
  std::vector<int> axes;
  for (const Dim& dim : attrs_.integers(attr)) {
    const Result<int> axis = axis_of(dim, attr, rank);
    if (!axis.ok()) return fail(axis.status().message());
    if (std::find(axes.begin(), axes.end(), *axis) != axes.end())
      return fail("dim ", *axis, " appears twice in '", attr, "'");
    axes.push_back(*axis);
  }
  return axes;
}

const TensorData* InferContext::constant(int i) const {
  return static_cast<size_t>(i) < constants_.size() ? constants_[i] : nullptr;
}

Dim InferContext::fresh_dim() {
  if (graph_ != nullptr) return graph_->fresh_symbol();
  return fresh_used_ < fresh_.size() ? fresh_[fresh_used_++] : Dim("unknown");
}

namespace {

void note(std::vector<Assumption>* assumptions, const Dim& left, Relation relation,
          const Dim& right) {
  if (assumptions != nullptr) assumptions->push_back({left, relation, right});
}

bool require_equal_in(std::vector<Assumption>* assumptions, const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return a.constant() == b.constant();
  note(assumptions, a, Relation::eq, b);
  return true;
}

bool require_at_least_in(std::vector<Assumption>* assumptions, const Dim& value, int64_t least) {
  if (value.is_constant()) return value.constant() >= least;
  note(assumptions, least, Relation::le, value);
  return true;
}

}  // namespace

bool InferContext::require_equal(const Dim& a, const Dim& b) const {
  return require_equal_in(assumptions_, a, b);
}

bool InferContext::require_equal(const TensorType& a, const TensorType& b) const {
  return a.dtype == b.dtype &&
         std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end(),
                    [&](const Dim& x, const Dim& y) { return require_equal(x, y); });
}

bool InferContext::require_at_least(const Dim& value, int64_t least) const {
  return require_at_least_in(assumptions_, value, least);
}

Graph InferContext::scratch_graph() const {
  Graph scratch(*registry_);
  GraphAccess::body(scratch).assumptions = assumptions_;
  return scratch;
}

bool ExpandContext::require_equal(const Dim& a, const Dim& b) const {
  return require_equal_in(GraphAccess::body(std::as_const(*graph_)).assumptions, a, b);
}

bool ExpandContext::require_at_least(const Dim& value, int64_t least) const {
  return require_at_least_in(GraphAccess::body(std::as_const(*graph_)).assumptions, value, least);
}

std::string InferContext::label() const { return label_of(attrs_.op(), origin_, ""); }

Result<int> ExpandContext::axis(std::string_view attr, int rank) const {
  return axis_of(attrs_.integer(attr), attr, rank);
}

void ExpandContext::set_out(int i, Value value) {
  if (outputs_.size() <= static_cast<size_t>(i)) outputs_.resize(static_cast<size_t>(i) + 1);
  outputs_[i] = value;
}

Result<int> GradContext::axis(std::string_view attr, int rank) const {
  return axis_of(attrs_.integer(attr), attr, rank);
}

Value GradContext::dout(int i) {
  Value& dout = douts_[i];
  const Value y = out(i);
  if (!dout)
    dout = graph_->call("expand", {graph_->scalar(0.0, y.dtype())}, {{"shape", y.shape()}});
  return dout;
}

void GradContext::set_grad(int i, Value dx) {
  const Value x = in(i);
  if (!dx || !x) return;
  // Sums over dims that broadcasting added or repeated. A size y that may be a repetition of x is
  // reshaped to [y / x, x], which has one row if it was not repeated.
  std::vector<Dim> axes;
  Shape rows;
  const int added = dx.rank() - x.rank();
  for (int d = 0; d < dx.rank(); ++d) {
    const Dim from = d < added ? Dim(1) : x.dim(d - added), to = dx.dim(d);
    const auto axis = static_cast<int64_t>(rows.size());
    if (may_be_repeated(from, to)) {
      axes.emplace_back(axis);
      rows.push_back(floordiv(to, max(from, Dim(1))));
      rows.push_back(from);
    } else {
      if (d < added || (from == Dim(1) && !(to == Dim(1)))) axes.emplace_back(axis);
      rows.push_back(to);
    }
  }
  if (!(rows == dx.shape())) dx = graph_->call("reshape", {dx}, {{"shape", rows}});
  if (!axes.empty()) dx = graph_->call("sum", {dx}, {{"dim", axes}, {"keepdim", true}});
  if (dx.rank() != x.rank()) dx = graph_->call("reshape", {dx}, {{"shape", x.shape()}});
  grads_[i] = dx;
}

int ViewContext::axis(std::string_view attr, int rank) const {
  const Result<int> axis = normalize_axis(integer(attr), rank);
  return axis.ok() ? *axis : 0;
}

GraphAccess::InferCall GraphAccess::infer_call(const Graph& graph, const Node& node) {
  InferCall call;
  call.op = node.op;
  call.registry = &graph.registry();
  call.attrs = node.attrs;
  call.subgraphs = node.subgraphs;
  call.origin = &node.origin;
  for (const ValueId id : node.inputs) {
    call.inputs.push_back(id == kNoValue ? nullptr : &graph.value_info(id).type);
    call.constants.push_back(graph.constant_of(id));
  }
  return call;
}

Result<std::vector<TensorType>> GraphAccess::infer(const InferCall& call) {
  const Op& op = *call.op;
  const AttrReader attrs(&op, call.attrs);
  if (op.def.infer != nullptr) {
    InferContext context(attrs);
    context.inputs_ = call.inputs;
    context.constants_ = call.constants;
    context.subgraphs_ = call.subgraphs;
    context.origin_ = call.origin;
    context.registry_ = call.registry;
    context.graph_ = call.graph;
    context.fresh_ = call.fresh;
    context.assumptions_ = call.assumptions;
    if (call.spare != nullptr) context.outputs_ = std::move(*call.spare);
    for (TensorType& type : context.outputs_) {
      type.dtype = f32;
      type.shape.clear();
    }
    context.outputs_.resize(op.signature.outputs.size());
    const bool takes_complex = op.def.traits & kComplex;
    if (const TensorType* type = complex_of(call.inputs); type != nullptr && !takes_complex)
      return context.fail("does not support tensors of ", type->dtype,
                          "; use view_as_real on the input");
    const Overflows overflows;
    HG_TRY(op.def.infer(context));
    if (overflows.any())
      return context.fail("sizes of the result, or on the way to it, have more than 64 bits");
    if (const TensorType* type = complex_of(context.outputs_); type != nullptr && !takes_complex)
      return context.fail("does not return tensors of ", type->dtype,
                          "; use view_as_complex on the result");
    for (const TensorType& type : context.outputs_)
      if (type.shape.size() > kMaxRank)
        return context.fail("the result has rank ", int64_t(type.shape.size()), "; the limit is ",
                            kMaxRank);
    return std::move(context.outputs_);
  }
  if (op.def.expand == nullptr)
    return internal_error("the op '", op.name(), "' has neither a shape rule nor an expansion");
  Graph scratch(*call.registry);
  GraphAccess::body(scratch).assumptions = call.assumptions;
  if (call.origin != nullptr) scratch.set_origin(*call.origin);
  Node node;
  node.op = &op;
  node.attrs.assign(call.attrs.begin(), call.attrs.end());
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i] == nullptr)
      node.inputs.push_back(kNoValue);
    else if (call.constants[i] != nullptr)
      node.inputs.push_back(scratch.constant(*call.constants[i]).id());
    else
      node.inputs.push_back(scratch.input("", call.inputs[i]->dtype, call.inputs[i]->shape).id());
  }
  const Overflows overflows;
  HG_TRY_ASSIGN(const std::vector<Value> outputs, expand(scratch, node));
  if (overflows.any())
    return invalid_argument(op.name(),
                            ": sizes of the result, or on the way to it, have more than 64 bits");
  std::vector<TensorType> types;
  for (const Value& output : outputs) types.push_back({output.dtype(), output.shape()});
  return types;
}

std::vector<Dim> GraphAccess::fresh_symbols(const Graph& graph, const Node& node) {
  const OpDef& def = node.op->def;
  if (def.infer != nullptr && (def.traits & (kDataDependent | kControl)) == 0) return {};
  std::vector<std::string> known, all;
  for (const ValueId id : node.inputs)
    if (id != kNoValue)
      for (const Dim& dim : graph.value_info(id).type.shape) dim.collect_symbols(known);
  for (const Attr& attr : node.attrs) {
    if (const Dim* dim = std::get_if<Dim>(&attr.value)) dim->collect_symbols(known);
    if (const auto* dims = std::get_if<std::vector<Dim>>(&attr.value))
      for (const Dim& dim : *dims) dim.collect_symbols(known);
  }
  all = known;
  for (const ValueId id : node.outputs)
    for (const Dim& dim : graph.value_info(id).type.shape) dim.collect_symbols(all);
  std::vector<Dim> fresh;
  for (size_t i = known.size(); i < all.size(); ++i) fresh.emplace_back(std::string_view(all[i]));
  return fresh;
}

Result<std::vector<Value>> GraphAccess::expand(Graph& graph, const Node& node) {
  const Op& op = *node.op;
  ExpandContext context(&graph, AttrReader(&op, node.attrs));
  for (const ValueId id : node.inputs)
    context.inputs_.push_back(id == kNoValue ? Value() : graph.value(id));
  HG_TRY(op.def.expand(context));
  if (!graph.status().ok()) {
    const Status status = graph.take_status();
    return Status(status.code(), str_cat(label(graph, node), ": ", status.message()));
  }
  if (context.outputs_.size() < op.signature.outputs.size())
    return internal_error("the expansion of '", op.name(), "' gives ",
                          int64_t(context.outputs_.size()), " outputs, not ",
                          int64_t(op.signature.outputs.size()));
  for (const Value& output : context.outputs_)
    if (!output) return internal_error("the expansion of '", op.name(), "' misses an output");
  return std::move(context.outputs_);
}

Result<std::vector<Value>> GraphAccess::grad(Graph& graph, const Node& node,
                                             const std::vector<Value>& douts,
                                             const std::vector<bool>& needs) {
  GradContext context(&graph, AttrReader(node.op, node.attrs));
  for (const ValueId id : node.inputs)
    context.inputs_.push_back(id == kNoValue ? Value() : graph.value(id));
  for (const ValueId id : node.outputs) context.outputs_.push_back(graph.value(id));
  context.douts_ = douts;
  context.needs_ = needs;
  context.grads_.resize(node.inputs.size());
  HG_TRY(node.op->def.grad(context));
  HG_TRY(graph.take_status());
  return std::move(context.grads_);
}

}  // namespace hg
