// SPDX-License-Identifier: Apache-2.0
// Blocks of the arena: places outputs in the memory of inputs or of a concatenation, and assigns
// offsets.
#include <algorithm>
#include <utility>

#include "lib/plan/planner.h"

namespace hg {
namespace {

// Whether another input of the step uses the same memory. The same tensor as two inputs is allowed
// if the output may overwrite either.
bool is_read_beside(const Step& step, size_t input, uint32_t alias) {
  const PlacedTensor& one = step.inputs[input];
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const PlacedTensor& other = step.inputs[i];
    if (i == input || other.place.kind != one.place.kind || other.place.block != one.place.block ||
        other.place.index != one.place.index)
      continue;
    const bool may_take_either = ((alias >> std::min<size_t>(i, 31)) & 1u) != 0;
    if (!(may_take_either && other.tensor.shape == one.tensor.shape &&
          other.tensor.strides == one.tensor.strides && other.tensor.dtype == one.tensor.dtype &&
          other.place.offset == one.place.offset))
      return true;
  }
  return false;
}

}  // namespace

void Planner::record(ValueId id, const PlacedTensor& out) {
  values(out.place.side)[id] = out;
  note_use_of_state(id, out);
  blocks_.note_reader(out.place, std::max(position_, last_uses_->of(id)));
}

Place Planner::joined_place(ValueId id) {
  if (const auto part = joins_.parts.find(id); part != joins_.parts.end()) {
    Place place = joined_place(part->second.whole);
    place.offset += part->second.offset;
    return place;
  }
  const auto whole = joins_.wholes.find(id);
  if (whole == joins_.wholes.end()) return {};
  Place& place = wholes_[id];
  if (place.kind == Place::Kind::none)
    place = blocks_.add(graph_.value_info(id).name, whole->second, Side::host);
  return place;
}

bool Planner::plan_joined(const Node& node, const PreparedNode& concrete) {
  if (joins_.wholes.count(node.outputs[0]) == 0) return false;
  const TensorType& type = concrete.output_types[0];
  record(node.outputs[0], {unplaced(type.dtype, sizes_of(type)), joined_place(node.outputs[0])});
  note_action({.kind = PlanAction::Kind::joined, .node = graph_.value_info(node.outputs[0]).node});
  return true;
}

bool Planner::fits_on_input(const Node& node, const Step& step, size_t input,
                            const Tensor& out) const {
  const bool in_place = node.op->def.traits & kInPlace;
  PlacedTensor in = step.inputs[input];
  if (in.place.kind == Place::Kind::arena && in.place.index == plan_.part)
    in.place.offset -= plan_.blocks[in.place.block].offset;
  return may_lie_on(out, in) && !is_read_beside(step, input, in_place ? 0 : node.op->def.alias);
}

Place Planner::memory_of_input(const Node& node, const Step& step, size_t output, const Tensor& out,
                               int32_t* input) const {
  *input = PlanAction::kNone;
  if (request_.options->keep_all_values) return {};
  const bool in_place = node.op->def.traits & kInPlace;
  if (output > 0 && !in_place) return {};
  size_t given = 0;
  for (size_t i = 0; i < step.inputs.size() && i < 32; ++i) {
    if (node.inputs[i] == kNoValue) continue;
    if (in_place ? given++ != output : !((node.op->def.alias >> i) & 1u)) continue;
    const PlacedTensor& in = step.inputs[i];
    if (!fits_on_input(node, step, i, out)) continue;
    *input = static_cast<int32_t>(i);
    if (in.place.kind == Place::Kind::state) {
      const auto state = static_cast<size_t>(in.place.index);
      if (updated_[node.outputs[output]] == body_.states[state].value &&
          state_last_use_[state] <= position_)
        return in.place;
    }
    if (in.place.kind != Place::Kind::arena || in.place.index != plan_.part) continue;
    const Block& block = plan_.blocks[in.place.block];
    if (block.lifetime.bytes == out.bytes() && blocks_.last_reader(in.place.block) <= position_)
      return in.place;
  }
  *input = PlanAction::kNone;
  return {};
}

void Planner::count_repeated() {
  std::vector<char> seen(body_.nodes.size(), 0);
  for (const Step& step : plan_.steps)
    if (step.node >= 0 && std::exchange(seen[step.node], 1)) plan_.extra_flops += step.flops;
}

void place_blocks(Plan& plan) {
  std::vector<int64_t> moved(plan.blocks.size(), 0);
  plan.arena_lower_bound = 0;
  for (const Side side : kSides) {
    std::vector<Lifetime> lifetimes;
    std::vector<size_t> blocks;
    for (size_t i = 0; i < plan.blocks.size(); ++i) {
      if (plan.blocks[i].side != side) continue;
      lifetimes.push_back(plan.blocks[i].lifetime);
      lifetimes.back().bytes = std::max(lifetimes.back().bytes, plan.blocks[i].room);
      blocks.push_back(i);
    }
    if (blocks.empty()) continue;
    const Arena arena = plan_memory(lifetimes);
    for (size_t i = 0; i < blocks.size(); ++i) {
      int64_t& offset = plan.blocks[blocks[i]].offset;
      moved[blocks[i]] = arena.offsets[i] - std::exchange(offset, arena.offsets[i]);
    }
    (side == Side::host ? plan.arena_bytes : plan.device_arena_bytes) = arena.bytes;
    plan.arena_lower_bound += arena.lower_bound;
  }
  const auto move = [&](Place& place) {
    if (place.kind == Place::Kind::arena && place.index == plan.part && place.block >= 0)
      place.offset += moved[place.block];
  };
  const auto move_step = [&](Step& step) {
    for (PlacedTensor& in : step.inputs) move(in.place);
    for (PlacedTensor& out : step.outputs) move(out.place);
    move(step.workspace);
  };
  for (Step& step : plan.steps) move_step(step);
  if (plan.measure) move_step(*plan.measure);
  for (auto& known : plan.values)
    for (auto& [id, value] : known) move(value.place);
}

}  // namespace hg
