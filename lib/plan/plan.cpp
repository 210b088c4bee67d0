// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lib/graph/rewrite.h"
#include "lib/graph/symbols.h"
#include "lib/plan/planner.h"

namespace hg {
namespace {

TensorType type_of(const Tensor& tensor) { return {tensor.dtype, to_shape(tensor.shape)}; }

bool is_shape(const Shape& shape, const Sizes& sizes) {
  return std::equal(shape.begin(), shape.end(), sizes.begin(), sizes.end(),
                    [](const Dim& dim, int64_t size) { return dim == Dim(size); });
}

}  // namespace

Attr with_numbers(const Attr& attr, const Bindings& bindings) {
  if (const Dim* dim = std::get_if<Dim>(&attr.value)) return dim->substitute(bindings);
  if (const auto* dims = std::get_if<std::vector<Dim>>(&attr.value)) {
    std::vector<Dim> numbers;
    for (const Dim& dim : *dims) numbers.push_back(dim.substitute(bindings));
    return numbers;
  }
  return attr;
}

Planner::Planner(const PlanRequest& request, int32_t* expand_node)
    : request_(request),
      graph_(*request.graph),
      body_(GraphAccess::body(graph_)),
      is_stateful_(std::ranges::find(*request.mutable_states, true) !=
                   request.mutable_states->end()),
      expand_node_(expand_node),
      blocks_(plan_) {}

Result<Plan> Planner::make() {
  plan_.bindings = *request_.bindings;
  if (request_.previous != nullptr) {
    plan_.part = request_.previous->part + 1;
    plan_.first_node = request_.previous->next_node;
    for (const Side side : kSides) values(side) = request_.previous->values[size_t(side)];
  } else {
    HG_TRY(place_inputs_and_states());
  }
  if (request_.schedule != nullptr) {
    plan_.schedule = *request_.schedule;
  } else {
    for (size_t i = plan_.first_node; i < body_.nodes.size(); ++i)
      plan_.schedule.push_back(static_cast<int32_t>(i));
  }
  updated_ = updated_states(graph_);
  find_last_uses();
  if (request_.join && request_.device == nullptr && !request_.options->keep_all_values)
    joins_ = find_joins(graph_, plan_.schedule, plan_.bindings, request_.ranged);
  if (request_.ranged) note_inputs_and_states();
  plan_.joined = static_cast<int>(joins_.wholes.size());
  plan_.next_node = body_.nodes.size();
  for (position_ = 0; position_ < static_cast<int>(plan_.schedule.size()); ++position_) {
    const int32_t index = plan_.schedule[position_];
    bool known = true;
    HG_TRY(plan_node(index, known));
    if (known) continue;
    plan_.next_node = static_cast<size_t>(index);
    plan_.schedule.resize(position_);
  }
  if (plan_.part == 0) HG_TRY(check_later_nodes());
  HG_TRY(separate_assignments());
  count_repeated();
  if (request_.ranged) finish_actions();
  blocks_.close(static_cast<int>(plan_.schedule.size()));
  place_blocks(plan_);
  return std::move(plan_);
}

Status Planner::concretize(const Node& node, PreparedNode& c) {
  for (const Attr& attr : node.attrs) {
    c.attrs.push_back(with_numbers(attr, plan_.bindings));
    HG_CHECK(!has_symbol(c.attrs.back()), label(graph_, node), ": the size ", c.attrs.back(),
             " is not known");
  }
  c.input_types.resize(node.inputs.size());
  GraphAccess::InferCall call = GraphAccess::infer_call(graph_, node);
  call.attrs = c.attrs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    c.input_types[i] = type_of(placed(node.inputs[i]).tensor);
    call.inputs[i] = &c.input_types[i];
  }
  return infer_types(node, call, c);
}

Status Planner::infer_types(const Node& node, GraphAccess::InferCall& call, PreparedNode& c) {
  call.fresh.clear();
  c.known = true;
  for (const Dim& dim : GraphAccess::fresh_symbols(graph_, node)) {
    call.fresh.push_back(dim.substitute(plan_.bindings));
    c.known &= call.fresh.back().is_constant();
  }
  call.spare = &c.output_types;
  Result<Types> types = GraphAccess::infer(call);
  if (!types.ok())
    return Status(types.status().code(),
                  str_cat("with ", bound_sizes(), ": ", types.status().message()));
  c.output_types = *std::move(types);
  // Results of a subgraph may have sizes with symbols that only the enclosing graph binds.
  if (!node.subgraphs.empty())
    for (TensorType& type : c.output_types)
      for (Dim& dim : type.shape) dim = dim.substitute(plan_.bindings);
  if (!c.known) return {};
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueInfo& info = graph_.value_info(node.outputs[i]);
    HG_TRY_ASSIGN(const Sizes expected, evaluate(info.type.shape, plan_.bindings));
    HG_CHECK(is_shape(c.output_types[i].shape, expected), label(graph_, node), ": with ",
             bound_sizes(), " the result '", info.name, "' is ", c.output_types[i].shape,
             ", but the model was built for ", info.type.shape, " = ", expected);
  }
  return {};
}

std::string Planner::bound_sizes() const {
  std::string out;
  for (const auto& [symbol, value] : plan_.bindings.all())
    out += str_cat(out.empty() ? "" : ", ", symbol, "=", value);
  return out.empty() ? "these sizes" : out;
}

Status Planner::plan_node(int32_t index, bool& known) {
  const Node& node = body_.nodes[index];
  PreparedNodes& all = request_.prepared != nullptr ? *request_.prepared : prepared_;
  const auto [entry, is_new] = all.try_emplace(index);
  PreparedNode& prepared = entry->second;
  if (is_new) {
    const Status status = concretize(node, prepared);
    if (!status.ok()) all.erase(index);
    HG_TRY(status);
  }
  known = prepared.known;
  copies_read_.assign(node.inputs.size(), PlanAction::kNone);
  if (!known) return plan_measure(index, node, prepared);
  begin_results(node);
  if (node.op->def.view != nullptr) return plan_view(node, prepared);
  if (plan_joined(node, prepared)) return {};
  HG_TRY_ASSIGN(Step step, choose_kernel(index, node, prepared));
  return add_outputs(node, prepared, std::move(step));
}

Status Planner::plan_view(const Node& node, const PreparedNode& concrete) {
  const Sizes shape = sizes_of(concrete.output_types[0]);
  const DType dtype = concrete.output_types[0].dtype;
  const PlacedTensor in = placed(node.inputs[0]);
  std::optional<PlacedTensor> out = viewed(node, in, shape, dtype);
  if (!out) {
    HG_TRY_ASSIGN(const PlacedTensor copy, contiguous(in, node.inputs[0]));
    out = viewed(node, copy, shape, dtype);
    if (request_.ranged) copies_read_[0] = copy_steps_[node.inputs[0]];
  }
  if (!out)
    return internal_error(label(graph_, node), ": no view of a contiguous ", in.tensor.shape);
  record(node.outputs[0], *out);
  note_action({.kind = PlanAction::Kind::view, .node = graph_.value_info(node.outputs[0]).node});
  // If the input is on both sides, so is the view.
  if (const PlacedTensor* twin = plan_.find(node.inputs[0], other(out->place.side))) {
    const std::optional<PlacedTensor> view = viewed(node, *twin, shape, dtype);
    if (view) record(node.outputs[0], *view);
  }
  return {};
}

Status Planner::plan_measure(int32_t index, const Node& node, PreparedNode& concrete) {
  if (!(node.op->def.traits & kControl)) {
    HG_TRY_ASSIGN(Step step, choose_kernel(index, node, concrete, Side::host));
    if (step.kernel->measure == nullptr)
      return internal_error(label(graph_, node), ": its kernel '", step.kernel->name,
                            "' does not measure");
    plan_.measure = std::move(step);
  } else {
    HG_TRY_ASSIGN(plan_.measure, control_step(index, node));
  }
  for (const PlacedTensor& in : plan_.measure->inputs) blocks_.extend(in, step_count());
  note_action({.node = index, .step = step_count(), .workspace = plan_.measure->workspace.block});
  return {};
}

Result<Step> Planner::control_step(int32_t index, const Node& node) {
  Step step;
  step.kind = StepKind::control;
  step.node = index;
  step.label = label(graph_, node);
  for (const ValueId id : node.inputs) {
    step.inputs.emplace_back();
    if (id == kNoValue) continue;
    HG_TRY_ASSIGN(step.inputs.back(), at(id, Side::host));
  }
  return step;
}

Status Planner::add_outputs(const Node& node, const PreparedNode& concrete, Step step) {
  const int at = step_count();
  PlanAction action{.node = step.node, .step = at, .workspace = step.workspace.block};
  for (const PlacedTensor& in : step.inputs) blocks_.extend(in, at);
  if (step.workspace.block >= 0) blocks_.extend(step.workspace.block, at);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorType& type = concrete.output_types[i];
    PlacedTensor out{unplaced(type.dtype, sizes_of(type)), {}};
    out.place = joined_place(node.outputs[i]);
    action.overwrites.push_back(PlanAction::kJoined);
    if (out.place.kind == Place::Kind::none)
      out.place = memory_of_input(node, step, i, out.tensor, &action.overwrites.back());
    if (out.place.kind == Place::Kind::none)
      out.place = blocks_.add(graph_.value_info(node.outputs[i]).name, out.tensor.bytes(),
                              step.on_device() ? Side::device : Side::host);
    blocks_.extend(out, at);
    record(node.outputs[i], out);
    step.outputs.push_back(out);
  }
  plan_.steps.push_back(std::move(step));
  note_action(std::move(action));
  return {};
}

Result<Plan> make_plan(const PlanRequest& request, int32_t* expand_node) {
  *expand_node = -1;
  return Planner(request, expand_node).make();
}

}  // namespace hg
