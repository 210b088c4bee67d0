// SPDX-License-Identifier: Apache-2.0
// Where values are stored, and the transfers and copies that bring them to their readers.
#include <algorithm>

#include "lib/graph/symbols.h"
#include "lib/plan/planner.h"

namespace hg {

Status Planner::place_inputs_and_states() {
  for (size_t i = 0; i < body_.inputs.size(); ++i) {
    const ValueInfo& info = graph_.value_info(body_.inputs[i]);
    HG_TRY_ASSIGN(const Sizes shape, evaluate(info.type.shape, plan_.bindings));
    values(Side::host)[body_.inputs[i]] = {unplaced(info.type.dtype, shape),
                                           Place::of_input(static_cast<int32_t>(i))};
  }
  // With a device, states that runs change are stored there; all other states are on both sides.
  for (size_t i = 0; i < body_.states.size(); ++i) {
    const Tensor& tensor = body_.states[i].data.tensor;
    for (const Side side : kSides) {
      const bool here = side == Side::device
                            ? request_.device != nullptr
                            : request_.device == nullptr || !(*request_.mutable_states)[i];
      if (here)
        values(side)[body_.states[i].value] = {unplaced(tensor.dtype, tensor.shape),
                                               Place::of_state(static_cast<int32_t>(i), side)};
    }
  }
  return {};
}

void Planner::find_last_uses() {
  last_uses_.emplace(graph_, plan_.schedule, request_.options->keep_all_values);
  state_last_use_.assign(body_.states.size(), -1);
  for (const Side side : kSides)
    for (const auto& [id, value] : values(side)) note_use_of_state(id, value);
}

void Planner::begin_results(const Node& node) {
  last_uses_->begin(position_);
  for (const ValueId id : node.outputs) {
    for (const Side side : kSides) {
      copies_[static_cast<size_t>(side)].erase(id);
      values(side).erase(id);
    }
  }
}

void Planner::note_use_of_state(ValueId id, const PlacedTensor& value) {
  if (value.place.kind != Place::Kind::state) return;
  int& last = state_last_use_[value.place.index];
  last = std::max(last, last_uses_->of(id));
}

const PlacedTensor& Planner::placed(ValueId id) const {
  const PlacedTensor* const host = plan_.find(id, Side::host);
  return host != nullptr ? *host : *plan_.find(id, Side::device);
}

const void* Planner::constant_data(const PlacedTensor& value) const {
  if (value.place.kind == Place::Kind::fixed) return value.place.address;
  if (value.place.kind != Place::Kind::state) return nullptr;
  const auto index = static_cast<size_t>(value.place.index);
  if ((*request_.mutable_states)[index]) return nullptr;
  return body_.states[index].data.tensor.as<std::byte>() + value.place.offset;
}

bool Planner::varies(ValueId id) const {
  for (const Node* node = view_node(id); node != nullptr; node = view_node(node->inputs[0]))
    if (std::any_of(node->attrs.begin(), node->attrs.end(), has_symbol)) return true;
  return false;
}

const Node* Planner::view_node(ValueId id) const {
  const int32_t index = graph_.value_info(id).node;
  if (index < 0) return nullptr;
  const Node& node = body_.nodes[index];
  if (node.op->def.view == nullptr) return nullptr;
  const ValueInfo& base = graph_.value_info(node.inputs[0]);
  if (base.node >= 0) return view_node(node.inputs[0]) != nullptr ? &node : nullptr;
  const bool moves = base.state >= 0 && (*request_.mutable_states)[size_t(base.state)];
  return moves ? nullptr : &node;
}

std::optional<PlacedTensor> Planner::viewed(const Node& node, const PlacedTensor& in,
                                            const Sizes& shape, DType dtype) const {
  std::vector<Attr> attrs;
  for (const Attr& attr : node.attrs) attrs.push_back(with_numbers(attr, plan_.bindings));
  return viewed(node, attrs, in, shape, dtype);
}

std::optional<PlacedTensor> Planner::viewed(const Node& node, std::span<const Attr> attrs,
                                            const PlacedTensor& in, const Sizes& shape,
                                            DType dtype) const {
  ViewContext context(AttrReader(node.op, attrs), in.tensor.shape, in.tensor.strides, shape);
  if (!node.op->def.view(context)) return std::nullopt;
  PlacedTensor out = in;
  out.tensor = {nullptr, dtype, shape, context.out_strides()};
  out.place.offset += context.offset() * size_of(in.tensor.dtype);
  return out;
}

Tensor Planner::expected(ValueId id, Side side) const {
  if (const PlacedTensor* here = plan_.find(id, side)) return here->tensor;
  const Tensor& there = placed(id).tensor;
  const Tensor copied = unplaced(there.dtype, there.shape);
  const Node* const view = view_node(id);
  if (view == nullptr) return copied;
  const PlacedTensor in{expected(view->inputs[0], side), {}};
  const std::optional<PlacedTensor> out = viewed(*view, in, there.shape, there.dtype);
  return out ? out->tensor : copied;
}

Result<PlacedTensor> Planner::at(ValueId id, Side side) {
  if (const PlacedTensor* here = plan_.find(id, side)) return *here;
  const PlacedTensor there = *plan_.find(id, other(side));
  if (const Node* const view = view_node(id)) {
    const PlacedTensor in{expected(view->inputs[0], side), {}};
    if (viewed(*view, in, there.tensor.shape, there.tensor.dtype)) {
      HG_TRY_ASSIGN(const PlacedTensor base, at(view->inputs[0], side));
      const PlacedTensor out = *viewed(*view, base, there.tensor.shape, there.tensor.dtype);
      record(id, out);
      return out;
    }
  }
  PlacedTensor from = there;
  if (!from.tensor.is_contiguous()) {
    HG_TRY_ASSIGN(from, contiguous(there, id));
  }
  PlacedTensor to{unplaced(from.tensor.dtype, from.tensor.shape), {}};
  if (side == Side::device && from.place.kind == Place::Kind::input && from.place.offset == 0 &&
      graph_.value_info(id).node < 0)
    to.place = Place::of_input(from.place.index, side);
  else
    to.place = blocks_.add(graph_.value_info(id).name, to.tensor.bytes(), side);
  add_transfer(side == Side::device ? StepKind::upload : StepKind::download, id, from, to);
  record(id, to);
  return to;
}

void Planner::add_transfer(StepKind kind, ValueId id, const PlacedTensor& from,
                           const PlacedTensor& to) {
  constexpr std::string_view kWords[] = {"", "", "upload", "download", "copy"};
  Step step;
  step.kind = kind;
  step.label = str_cat(kWords[static_cast<size_t>(kind)], " '", graph_.value_info(id).name, "'");
  step.inputs = {from};
  step.outputs = {to};
  step.bytes = 2 * to.tensor.bytes();
  blocks_.extend(from, step_count());
  blocks_.extend(to, step_count());
  plan_.steps.push_back(std::move(step));
}

Result<PlacedTensor> Planner::contiguous(const PlacedTensor& in, ValueId id) {
  auto& copies = copies_[static_cast<size_t>(in.place.side)];
  if (const auto known = copies.find(id); known != copies.end()) {
    blocks_.note_reader(known->second.place, position_);
    return known->second;
  }
  Step step;
  step.label = str_cat("contiguous '", graph_.value_info(id).name, "'");
  PlacedTensor out{unplaced(in.tensor.dtype, in.tensor.shape), {}};
  if (in.place.side == Side::host) {
    const auto kernels = request_.registry->kernels("contiguous", Device::cpu);
    if (kernels.empty()) return internal_error("there is no CPU kernel for 'contiguous'");
    step.kernel = kernels.back();
  } else {
    HG_TRY(prepare_device_copy(in.tensor, out.tensor, id, step));
  }
  out.place = blocks_.add(str_cat(graph_.value_info(id).name, " (contiguous)"), out.tensor.bytes(),
                          in.place.side);
  blocks_.note_reader(out.place, std::max(position_, last_uses_->of(id)));
  step.inputs = {in};
  step.outputs = {out};
  step.bytes = 2 * out.tensor.bytes();
  blocks_.extend(in, step_count());
  blocks_.extend(out, step_count());
  plan_.steps.push_back(std::move(step));
  copies[id] = out;
  if (request_.ranged) {
    copy_steps_[id] = step_count() - 1;
    note_action({.kind = PlanAction::Kind::copy, .step = step_count() - 1, .value = id});
  }
  return out;
}

Status Planner::prepare_device_copy(const Tensor& in, const Tensor& out, ValueId id, Step& step) {
  const Op* const op = request_.registry->find("contiguous");
  if (op == nullptr) return internal_error("there is no op 'contiguous'");
  for (const KernelDef* kernel : device_kernels(*op)) {
    PrepareContext context({.attrs = AttrReader(op, {}),
                            .inputs = {in},
                            .outputs = {out},
                            .given = {true},
                            .ids = {id},
                            .label = step.label,
                            .packs = request_.packs,
                            .device = request_.device});
    if (kernel->accepts != nullptr && !kernel->accepts(context)) continue;
    HG_TRY(kernel->prepare(context));
    step.kernel = kernel;
    step.state = context.shared_state();
    return {};
  }
  return unsupported("the device has no copy for '", graph_.value_info(id).name, "' of ", in.dtype);
}

bool Planner::updates_in_place(ValueId id) const {
  const int32_t node = graph_.value_info(id).node;
  return node >= 0 && body_.nodes[node].op->def.view == nullptr;
}

Status Planner::separate_assignments() {
  if (plan_.next_node != body_.nodes.size()) return {};
  const Side home = request_.device != nullptr ? Side::device : Side::host;  // of states
  const auto separate = [&](ValueId id, Side side, bool needs_contiguous) -> Status {
    HG_TRY_ASSIGN(const PlacedTensor value, at(id, side));
    const bool overwritten =
        value.place.kind == Place::Kind::state && (*request_.mutable_states)[value.place.index];
    if (needs_contiguous || overwritten) plan_.separated.push_back(id);
    if (!overwritten && !(needs_contiguous && !value.tensor.is_contiguous())) return {};
    HG_TRY_ASSIGN(values(side)[id], contiguous(value, id));
    return {};
  };
  const auto in_place = [&](ValueId target, ValueId source) {
    const PlacedTensor* const value = plan_.find(source, home);
    return target != source && value != nullptr && value->place.kind == Place::Kind::state &&
           body_.states[value->place.index].value == target && updates_in_place(source);
  };
  for (const auto& [target, source] : body_.assignments)
    if (!in_place(target, source)) HG_TRY(separate(source, home, true));
  const bool on_device = home == Side::device && request_.options->device_outputs;
  for (const auto& [name, id] : body_.outputs) {
    HG_TRY(separate(id, on_device ? Side::device : Side::host, on_device));
    if (!on_device && plan_.find(id, Side::device) != nullptr)
      HG_TRY(separate(id, Side::device, false));
  }
  if (home == Side::host) return {};
  for (const auto& [target, source] : body_.assignments) {
    if (in_place(target, source)) continue;
    const PlacedTensor from = *plan_.find(source, Side::device);
    const int32_t state = graph_.value_info(target).state;
    add_transfer(StepKind::copy, target, from, {from.tensor, Place::of_state(state, Side::device)});
  }
  return {};
}

}  // namespace hg
