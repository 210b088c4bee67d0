// SPDX-License-Identifier: Apache-2.0
// Loops: unrolled if constants decide their length, graph ops if data or symbolic sizes do.
#include <algorithm>

#include "converter/containers/columns.h"
#include "converter/interpret/attempt.h"
#include "converter/interpret/loop_node.h"

namespace hg::convert {
namespace {

constexpr int64_t kMostTrips = 100000;  // of an unrolled loop
constexpr int64_t kMostUnrolled = 64;   // the same, if its length depends on sizes
constexpr int kMostPeeled = 2;   // unrolled first iterations that change types of carried values
constexpr int kMostStarts = 64;  // of a loop, to find its containers

[[noreturn]] void refuse_trips() {
  throw Refusal{str_cat("a loop runs more than ", kMostTrips, " times"), ""};
}

// Whether the condition after an iteration is a constant or comes from outside the loop.
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
  const bool may_split = splits_.take();
  int64_t done = 0;
  int peeled = 0;
  for (;;) {
    for (const Item* item : {&trips, &condition})
      if (const auto* tensor = std::get_if<TensorRef>(&item->value))
        if ((*tensor)->is_poisoned()) {
          list_missing(block);
          return poison_outputs(node);
        }
    const auto count = scalar_of(trips);
    const auto more = count ? relate("lt", Scalar::of(Dim(done)), *count) : std::nullopt;
    const auto go_on = decided(condition);
    if ((more && more->is_constant() && more->as_double() == 0) || (go_on && !*go_on)) break;
    // A symbolic trip count may have a known minimum. The graph counts the remaining iterations.
    if (!go_on || !count || !count->is_constant()) {
      const bool few =
          go_on && count && count->is_integral() && count->top.upper_bound() <= kMostUnrolled;
      const auto usual = few ? usual_value(count->top) : std::nullopt;
      std::vector<Item> start = block_items(block.inputs);
      if (!usual) {
        const auto peeling = while_on_data(node, trips, done, condition);
        if (!peeling) return;
        if (++peeled > kMostPeeled || !more || !go_on) throw *peeling;
        for (size_t i = 0; i < start.size(); ++i) set(block.inputs[i], start[i]);
        if (!has_round(*more, may_split)) break;
        condition = run_round(block, done++);
        continue;
      }
      if (while_on_sizes(node, trips, done, condition)) return;
      memory_.graph().guard(count->top, Relation::eq, *usual, "a loop");
      trips = Item(*usual);
      continue;
    }
    if (done >= kMostTrips) refuse_trips();
    condition = run_round(block, done++);
    const auto holds = decided(condition);
    if (done == 1 && holds && *holds && has_fixed_condition(block)) {
      const auto too_many = compare("lt", Scalar::of(Dim(kMostTrips)), *count);
      if (too_many && *too_many) refuse_trips();
    }
  }
  for (size_t i = 0; i < carried; ++i) set(node.outputs[i], get(block.inputs[i + 1]));
}

// Runs one iteration outside a node; returns the condition for the next one.
Item Interpreter::run_round(const ScriptBlock& block, int64_t counter) {
  set(block.inputs[0], Item(counter));
  run_block(block);
  const std::vector<Item> next = block_results(block);
  for (size_t i = 1; i < next.size(); ++i) set(block.inputs[i], next[i]);
  return next[0];
}

// Returns whether a loop has another iteration, if an iteration changes the types of carried
// values. An `if` around all following nodes decides, or else the iteration is assumed.
bool Interpreter::has_round(const Scalar& condition, bool may_split) {
  if (const auto known = known_.find(condition)) return *known;
  if (may_split) throw Splitting{condition};
  assume(condition, true, "the first round of a loop, which changes what the loop carries");
  return true;
}

// Converts a loop whose length depends on sizes to a graph node. Returns false and changes nothing
// if this is impossible.
bool Interpreter::while_on_sizes(const ScriptNode& node, const Item& trips, const Dim& done,
                                 const Item& condition) {
  const ScriptBlock& block = node.blocks.at(0);
  Attempt attempt(*this);
  const std::vector<Item> start = block_items(block.inputs);
  try {
    if (!while_on_data(node, trips, done, condition) && !attempt.has_failed()) return true;
  } catch (const Refusal&) {
  } catch (const Raised&) {
  }
  attempt.undo();
  for (size_t i = 0; i < start.size(); ++i) set(block.inputs[i], start[i]);
  return false;
}

// Starts over if a pass finds a list or dict from outside that the body changes. If an iteration
// changes the types of carried values, returns the refusal for the case that peeling does not help.
std::optional<Refusal> Interpreter::while_on_data(const ScriptNode& node, const Item& trips,
                                                  const Dim& done, const Item& condition) {
  Growths grown(*this);
  std::vector<Item> held;
  for (int starts = 0; starts < kMostStarts; ++starts) {
    LoopNode loop(*this, node, trips, done, condition, held);
    try {
      const LoopNode::Outcome outcome = loop.find_changes();
      if (outcome == LoopNode::Outcome::changes_types) return loop.refusal();
      if (outcome != LoopNode::Outcome::shaped) {
        outcome == LoopNode::Outcome::found ? loop.add_node() : poison_outputs(node);
        grown.keep();
        return std::nullopt;
      }
    } catch (const Changing& found) {
      const Item container = loop.original(found.container);
      identities_.check_change(container);
      const bool is_carried = loop.carries(identity_of(container));
      const auto* list = std::get_if<std::shared_ptr<List>>(&container.value);
      if (is_carried && list && !(*list)->grown && !(*list)->items.empty()) {
        grown.grow({*list, pattern_of(memory_, container), false});
        loop.start_over();
        continue;
      }
      if (is_carried)
        throw Refusal{"a list or dict that a loop of unknown length carries is changed in place",
                      "make a new one in each round"};
      for (const Item& other : held)
        if (holds(container, identity_of(other)))
          throw Refusal{"a loop of unknown length changes a list or dict and another inside it",
                        ""};
      held.push_back(container);
    } catch (Growing& found) {
      found.list = std::get<std::shared_ptr<List>>(loop.original(Item(found.list)).value);
      if (identities_.is_outer(found.list.get())) throw;
      grown.grow(found);
    }
    loop.start_over();
  }
  throw Refusal{"which lists and dicts a loop whose end data decides changes is not found out", ""};
}

}  // namespace hg::convert
