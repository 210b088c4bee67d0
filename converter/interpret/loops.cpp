// SPDX-License-Identifier: Apache-2.0
// Loops: unrolled if constants decide their length, kept as graph ops if data or symbolic sizes do.
#include <algorithm>

#include "converter/interpret/attempt.h"
#include "converter/interpret/loop_node.h"

namespace hg::convert {
namespace {

constexpr int64_t kMostTrips = 100000;  // of an unrolled loop
constexpr int64_t kMostUnrolled = 64;   // trips that sizes count, of a loop that is not kept

[[noreturn]] void refuse_trips() {
  throw Refusal{str_cat("a loop runs more than ", kMostTrips, " times"), ""};
}

// Whether the condition after a round is a constant, or one from around the loop.
bool has_fixed_condition(const ScriptBlock& body) {
  const auto has = [&](const std::vector<ScriptId>& ids) {
    return std::find(ids.begin(), ids.end(), body.outputs.at(0)) != ids.end();
  };
  if (has(body.inputs)) return false;
  return std::all_of(body.nodes.begin(), body.nodes.end(), [&](const ScriptNode& node) {
    return node.kind == "prim::Constant" || !has(node.outputs);
  });
}

}  // namespace

void Interpreter::run_loop(const ScriptNode& node) {
  // inputs: trip count, condition, carried values; block: counter, carried -> condition, carried
  Item trips = get(node.inputs.at(0));
  Item condition = get(node.inputs.at(1));
  const ScriptBlock& block = node.blocks.at(0);
  const size_t carried = node.outputs.size();
  for (size_t i = 0; i < carried; ++i) set(block.inputs[i + 1], get(node.inputs[i + 2]));
  int64_t done = 0;
  for (;;) {
    for (const Item* item : {&trips, &condition})
      if (const auto* tensor = std::get_if<TensorRef>(&item->value))
        if ((*tensor)->is_poisoned()) {
          list_missing(block);
          return poison_outputs(node);
        }
    const auto count = scalar_of(trips);
    const auto more = count ? compare("lt", Scalar::of(Dim(done)), *count) : std::nullopt;
    const auto go_on = decided(condition);
    if ((more && !*more) || (go_on && !*go_on)) break;
    // A symbolic trip count may admit some trips for sure; the rest are for the graph to count.
    if (!go_on || !count || !count->is_constant()) {
      const bool few =
          go_on && count && count->is_integral() && count->top.upper_bound() <= kMostUnrolled;
      const auto usual = few ? usual_value(count->top) : std::nullopt;
      if (!usual) return while_on_data(node, trips, done, condition);
      if (while_on_sizes(node, trips, done, condition)) return;
      memory_.graph().guard(count->top, Relation::eq, *usual, "a loop");
      trips = Item(*usual);
      continue;
    }
    if (done >= kMostTrips) refuse_trips();
    set(block.inputs[0], Item(done));
    run_block(block);
    ++done;
    condition = get(block.outputs[0]);
    const auto holds = decided(condition);
    if (done == 1 && holds && *holds && has_fixed_condition(block)) {
      const auto too_many = compare("lt", Scalar::of(Dim(kMostTrips)), *count);
      if (too_many && *too_many) refuse_trips();
    }
    std::vector<Item> next = block_results(block);
    for (size_t i = 0; i < carried; ++i) set(block.inputs[i + 1], next[i + 1]);
  }
  for (size_t i = 0; i < carried; ++i) set(node.outputs[i], get(block.inputs[i + 1]));
}

// A loop that sizes count as a node of the graph. False, with nothing done, where it cannot be one.
bool Interpreter::while_on_sizes(const ScriptNode& node, const Item& trips, const Dim& done,
                                 const Item& condition) {
  const ScriptBlock& block = node.blocks.at(0);
  Attempt attempt(*this);
  std::vector<Item> start;
  for (const ScriptId id : block.inputs) start.push_back(get(id));
  try {
    while_on_data(node, trips, done, condition);
    if (!attempt.has_failed()) return true;
  } catch (const Refusal&) {
  } catch (const Raised&) {
  }
  attempt.undo();
  for (size_t i = 0; i < start.size(); ++i) set(block.inputs[i], start[i]);
  return false;
}

// Starts over where a pass finds a list or dict from outside that the body changes.
void Interpreter::while_on_data(const ScriptNode& node, const Item& trips, const Dim& done,
                                const Item& condition) {
  for (std::vector<Item> held;;) {
    LoopNode loop(*this, node, trips, done, condition, held);
    try {
      if (!loop.find_changes()) return poison_outputs(node);
      return loop.add_node();
    } catch (const LoopNode::Shaped&) {
    } catch (const Changing& found) {
      check_change(found.container);
      if (loop.carries(identity_of(found.container)))
        throw Refusal{"a list or dict that a loop of unknown length carries is changed in place",
                      "make a new one in each round"};
      for (const Item& other : held)
        if (holds(found.container, identity_of(other)))
          throw Refusal{"a loop of unknown length changes a list or dict and another inside it",
                        ""};
      held.push_back(found.container);
    } catch (const Growing& found) {
      if (depth_of(found.list.get()) < memory_.depth()) {
        if (may_grow(found.list.get())) throw;
        check_change(Item(found.list));
      }
      start_growing(memory_, {loop.original(found.list), found.element});
    }
    loop.start_over();
  }
}

}  // namespace hg::convert
