// SPDX-License-Identifier: Apache-2.0
// Which parts of a plan depend on which symbol, and how they are filled for other sizes.
#include "lib/plan/refill.h"

#include <algorithm>
#include <utility>

#include "lib/plan/branches.h"
#include "lib/plan/planner.h"

namespace hg {
namespace {

constexpr size_t kMostSymbols = 64;  // bits of PlanAction::symbols

bool have_same_symbols(const Bindings& a, const Bindings& b) {
  return std::equal(a.all().begin(), a.all().end(), b.all().begin(), b.all().end(),
                    [](const auto& x, const auto& y) { return x.first == y.first; });
}

}  // namespace

// -- Dependencies ---------------------------------------------------------------------------------

uint64_t Planner::symbols_in(const Dim& dim) const {
  if (dim.is_constant()) return 0;
  uint64_t bits = 0;
  std::vector<std::string> names;
  dim.collect_symbols(names);
  const auto& all = plan_.bindings.all();
  for (size_t i = 0; i < all.size(); ++i)
    if (std::find(names.begin(), names.end(), all[i].first) != names.end())
      bits |= uint64_t{1} << (i % kMostSymbols);
  return bits;
}

uint64_t Planner::symbols_in(const Attr& attr) const {
  if (const Dim* const dim = std::get_if<Dim>(&attr.value)) return symbols_in(*dim);
  uint64_t bits = 0;
  if (const auto* const dims = std::get_if<std::vector<Dim>>(&attr.value))
    for (const Dim& dim : *dims) bits |= symbols_in(dim);
  return bits;
}

uint64_t Planner::symbols_of_shape(ValueId id) const {
  uint64_t bits = 0;
  for (const Dim& dim : graph_.value_info(id).type.shape) bits |= symbols_in(dim);
  return bits;
}

uint64_t Planner::symbols_of_node(const Node& node) const {
  uint64_t bits = 0;
  for (const Attr& attr : node.attrs) bits |= symbols_in(attr);
  for (const ValueId id : node.inputs)
    if (id != kNoValue) bits |= plan_.symbols_of[id] | symbols_of_shape(id);
  for (const ValueId id : node.outputs) bits |= symbols_of_shape(id);
  return bits;
}

void Planner::note_inputs_and_states() {
  plan_.can_refill = request_.device == nullptr && plan_.bindings.all().size() <= kMostSymbols;
  if (request_.previous != nullptr) plan_.symbols_of = request_.previous->symbols_of;
  // If a part cannot be refilled, its values count as depending on all symbols.
  const bool is_unknown = request_.previous != nullptr && plan_.symbols_of.empty();
  plan_.symbols_of.resize(body_.values.size(), is_unknown ? ~uint64_t{0} : 0);
  for (const ValueId id : body_.inputs) plan_.symbols_of[id] = symbols_of_shape(id);
}

void Planner::note_action(PlanAction action) {
  if (!request_.ranged) return;
  if (action.kind == PlanAction::Kind::copy) {
    action.symbols = plan_.symbols_of[action.value] | symbols_of_shape(action.value);
  } else {
    const Node& node = body_.nodes[action.node];
    action.copies = copies_read_;
    action.symbols = symbols_of_node(node);
    // A view has the place of its input.
    for (const ValueId id : node.outputs)
      plan_.symbols_of[id] =
          action.kind == PlanAction::Kind::view ? action.symbols : symbols_of_shape(id);
  }
  plan_.actions.push_back(std::move(action));
}

void Planner::finish_actions() {
  std::vector<char> seen(body_.nodes.size(), 0), moved(body_.values.size(), 0);
  for (const int32_t node : plan_.schedule) plan_.can_refill &= !std::exchange(seen[node], 1);
  for (const ValueId id : plan_.separated) {
    moved[id] = 1;
    plan_.can_refill &= plan_.symbols_of[id] == 0;
  }
  std::erase_if(plan_.actions, [](const PlanAction& action) { return action.symbols == 0; });
  for (const PlanAction& action : plan_.actions)
    if (action.node >= 0)
      for (const ValueId id : body_.nodes[action.node].inputs)
        plan_.can_refill &= id == kNoValue || !moved[id];
  for (Block& block : plan_.blocks) block.room = block.lifetime.bytes;
}

// -- Filling --------------------------------------------------------------------------------------

Status Planner::refill(Plan& plan, uint64_t changed, RefillResult& result) {
  plan_ = std::move(plan);
  plan_.bindings = request_.bindings;
  const Status status = [&]() -> Status {
    const auto is_separated = [&](ValueId id) {
      return std::find(plan_.separated.begin(), plan_.separated.end(), id) != plan_.separated.end();
    };
    if (request_.previous != nullptr) {
      for (const auto& [id, value] : request_.previous->values[0])
        if (!is_separated(id)) values(Side::host)[id] = value;
    } else {
      for (const ValueId id : body_.inputs)
        if (plan_.symbols_of[id] & changed) {
          PlacedTensor& input = values(Side::host)[id];
          HG_TRY_ASSIGN(const Sizes shape,
                        evaluate(graph_.value_info(id).type.shape, plan_.bindings));
          input.tensor = unplaced(input.tensor.dtype, shape);
        }
    }
    for (PlanAction& action : plan_.actions) {
      if (!(action.symbols & changed)) continue;
      HG_TRY(refill_action(action, result));
      if (!result.fits) break;
    }
    if (result.fits && plan_.part == 0) HG_TRY(check_later_nodes());
    return {};
  }();
  if (result.fits && status.ok() && result.has_grown) place_blocks(plan_);
  plan = std::move(plan_);
  HG_TRY(status);
  result.fits = result.fits && is_still_apart(plan);
  return {};
}

Status Planner::refill_action(PlanAction& action, RefillResult& result) {
  auto& known = values(Side::host);
  if (action.kind == PlanAction::Kind::step) return refill_step(action, result);
  if (action.kind == PlanAction::Kind::copy) {
    Step& step = plan_.steps[action.step];
    PlacedTensor& out = step.outputs[0];
    step.inputs[0] = placed(action.value);
    out.tensor = unplaced(out.tensor.dtype, step.inputs[0].tensor.shape);
    step.bytes = 2 * out.tensor.bytes();
    refill_block(out.place.block, out.tensor.bytes(), result);
    result.steps.push_back(action.step);
    return {};
  }
  const Node& node = body_.nodes[action.node];
  PreparedNode prepared;
  HG_TRY(concretize(node, prepared));
  const Sizes shape = sizes_of(prepared.output_types[0]);
  const DType dtype = prepared.output_types[0].dtype;
  PlacedTensor& out = known[node.outputs[0]];
  if (action.kind == PlanAction::Kind::joined) {
    out.tensor = unplaced(dtype, shape);
    const Block& block = plan_.blocks[out.place.block];
    const int64_t end = out.place.offset - block.offset + out.tensor.bytes();
    // A concatenation nested in another does not determine the size of the outer one.
    if (out.place.offset == block.offset) refill_block(out.place.block, end, result);
    return {};
  }
  std::optional<PlacedTensor> made = viewed(node, placed(node.inputs[0]), shape, dtype);
  result.fits = made.has_value() == (action.copies[0] == PlanAction::kNone);
  if (!result.fits) return {};
  if (!made) made = viewed(node, plan_.steps[action.copies[0]].outputs[0], shape, dtype);
  result.fits = made.has_value();
  if (made) out = *made;
  return {};
}

Status Planner::refill_inputs(const PlanAction& action, const Node& node, Step& step) {
  const auto misfit = [&] { return unsupported(step.label, ": reads other copies"); };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    if (step.kind == StepKind::control) {
      step.inputs[i] = placed(node.inputs[i]);
      continue;
    }
    PlacedTensor in = input_for(*step.kernel, node, i);
    const bool is_copied = in.place.kind != Place::Kind::fixed &&
                           !wants_any_strides(*step.kernel, i) && !in.tensor.is_contiguous();
    if (is_copied != (action.copies[i] != PlanAction::kNone)) return misfit();
    step.inputs[i] = is_copied ? plan_.steps[action.copies[i]].outputs[0] : in;
  }
  return {};
}

Status Planner::refill_step(PlanAction& action, RefillResult& result) {
  const Node& node = body_.nodes[action.node];
  const bool measures = action.step == step_count();
  Step& step = measures ? *plan_.measure : plan_.steps[action.step];
  PreparedNode prepared;
  HG_TRY(concretize(node, prepared));
  result.fits = prepared.known != measures;
  if (!result.fits) return {};
  if (step.kind != StepKind::control) {
    HG_TRY(prepare_kernel(action.node, node, prepared, Side::host));
    Step& made = *prepared.step;
    result.fits = !measures || made.kernel->measure != nullptr;
    if (!result.fits) return {};
    step.kernel = made.kernel;
    step.state = std::move(made.state);
    step.flops = made.flops;
    step.bytes = made.bytes;
  }
  HG_TRY(refill_inputs(action, node, step));
  if (step.kind != StepKind::control) refill_workspace(action, prepared.workspace, step, result);
  for (size_t i = 0; i < action.overwrites.size(); ++i) {
    PlacedTensor& out = step.outputs[i];
    out.tensor = unplaced(prepared.output_types[i].dtype, sizes_of(prepared.output_types[i]));
    const int32_t over = action.overwrites[i];
    if (over >= 0) {
      // As at planning time: blocks have no offsets yet.
      Step unmoved;
      for (PlacedTensor in : step.inputs) {
        if (in.place.kind == Place::Kind::arena && in.place.index == plan_.part)
          in.place.offset -= plan_.blocks[in.place.block].offset;
        unmoved.inputs.push_back(in);
      }
      result.fits = fits_on_input(node, unmoved, static_cast<size_t>(over), out.tensor);
      if (!result.fits) return {};
      out.place = step.inputs[over].place;
    } else if (over == PlanAction::kNone) {
      refill_block(out.place.block, out.tensor.bytes(), result);
    }
    values(Side::host)[node.outputs[i]] = out;
  }
  result.steps.push_back(action.step);
  return {};
}

void Planner::refill_block(int32_t block, int64_t bytes, RefillResult& result) {
  Block& known = plan_.blocks[block];
  known.lifetime.bytes = bytes;
  if (bytes <= align_up(known.room)) return;
  known.room = bytes;
  result.has_grown = true;
}

void Planner::refill_workspace(PlanAction& action, int64_t bytes, Step& step,
                               RefillResult& result) {
  step.workspace = {};
  if (bytes == 0) return;
  if (action.workspace == PlanAction::kNone) {
    int at = std::min(action.step, std::max(0, step_count() - 1));
    Lifetime lifetime{at, at, 0};
    for (const Branches& branches : plan_.branches)
      if (branches.begin <= at && at < branches.end) lifetime.first = branches.begin;
    action.workspace = static_cast<int32_t>(plan_.blocks.size());
    plan_.blocks.push_back({"workspace", Side::host, lifetime});
  }
  refill_block(action.workspace, bytes, result);
  step.workspace.kind = Place::Kind::arena;
  step.workspace.index = plan_.part;
  step.workspace.block = action.workspace;
  step.workspace.offset = plan_.blocks[action.workspace].offset;
}

Status refill_plan(PlanRequest request, Plan& plan, bool is_stale, RefillResult& result) {
  if (!have_same_symbols(plan.bindings, request.bindings)) {
    result.fits = false;
    return {};
  }
  uint64_t changed = is_stale ? ~uint64_t{0} : 0;
  for (size_t i = 0; i < plan.bindings.all().size(); ++i)
    if (plan.bindings.all()[i].second != request.bindings.all()[i].second)
      changed |= uint64_t{1} << i;
  const std::vector<char> alone = plan.alone;
  request.alone = alone.empty() ? nullptr : &alone;
  request.prepared = nullptr;
  request.ranged = true;
  int32_t expand_node = -1;
  const Status status = Planner(request, &expand_node).refill(plan, changed, result);
  if (!status.ok()) result.fits = false;  // a new plan reports the reason
  return status.code() == Code::out_of_memory ? status : Status();
}

}  // namespace hg
