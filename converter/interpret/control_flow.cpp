// SPDX-License-Identifier: Apache-2.0
// `if`: resolved if constants or sizes decide, a graph op if data decides.
#include <algorithm>
#include <optional>

#include "converter/containers/columns.h"
#include "converter/containers/containers.h"
#include "converter/interpret/attempt.h"
#include "converter/interpret/branch_node.h"

namespace hg::convert {

namespace {

bool squeezes(const ScriptBlock& block) {
  return std::any_of(block.nodes.begin(), block.nodes.end(),
                     [](const ScriptNode& node) { return node.kind == "onnx::Squeeze"; });
}

// Returns the side that squeezes if the other side passes its tensor on. Exporters write
// x.squeeze(1) in this form, and the author of the model expects the dim to be 1.
std::optional<bool> squeezing_side(const ScriptNode& node) {
  const auto passes_on = [](const ScriptBlock& block) {
    return std::all_of(block.nodes.begin(), block.nodes.end(), [](const ScriptNode& inner) {
      return inner.kind == "onnx::Identity" || inner.kind == "prim::Constant";
    });
  };
  for (const size_t side : {0, 1})
    if (squeezes(node.blocks[side]) && passes_on(node.blocks[1 - side])) return side == 0;
  return std::nullopt;
}

}  // namespace

Item Interpreter::fit(const Item& item, const Pattern& pattern) {
  Item result = fitted(memory_, item, pattern);
  if (identity_of(result) == identity_of(item)) return result;
  identities_.store(item);
  const auto mark = [&](const auto& self, const Item& each) -> void {
    identities_.made(each);
    if (const Items* items = elements_of(each))
      for (const Item& inner : *items) self(self, inner);
  };
  mark(mark, result);
  return result;
}

bool Interpreter::ends_in_raise(const ScriptBlock& block) const {
  return std::any_of(block.nodes.begin(), block.nodes.end(),
                     [](const ScriptNode& node) { return node.kind == "prim::RaiseException"; });
}

void Interpreter::run_if(const ScriptNode& node) {
  const Item condition = get(node.inputs.at(0));
  if (const auto* tensor = std::get_if<TensorRef>(&condition.value))
    if ((*tensor)->is_poisoned()) {
      for (const ScriptBlock& block : node.blocks) list_missing(block);
      return poison_outputs(node);
    }
  if (const auto truth = decided(condition)) return take(node, *truth ? 0 : 1);
  if (const auto truth = known_.find(node.inputs.at(0))) return take(node, *truth ? 0 : 1);
  const auto scalar = scalar_of(condition);
  const auto sizes = scalar ? to_boolean(*scalar) : std::nullopt;
  if (sizes)
    if (const auto truth = known_.find(*sizes)) return take(node, *truth ? 0 : 1);
  int raising = -1;
  for (int side = 0; side < 2; ++side)
    if (ends_in_raise(node.blocks[side])) raising = side;
  if (raising >= 0) {
    require(condition, raising == 1, try_alone(node.blocks[size_t(raising)]).exception);
    return take(node, 1 - raising);
  }
  if (sizes) return if_on_sizes(node, condition, *sizes);
  if_or_split(node, condition);
}

void Interpreter::take(const ScriptNode& node, int side) {
  const ScriptBlock& block = node.blocks.at(side);
  run_block(block);
  for (size_t i = 0; i < node.outputs.size(); ++i) set(node.outputs[i], get(block.outputs[i]));
}

void Interpreter::assume(const Scalar& condition, bool wanted, std::string_view reason) {
  guard(memory_.graph(), wanted ? condition : negation(condition), reason);
}

Tried Interpreter::try_alone(const ScriptBlock& block) {
  Tried tried;
  Attempt attempt(*this);
  memory_.enter({});
  try {
    run_block(block);
    if (attempt.has_failed() || !memory_.graph().take_status().ok()) tried.end = Tried::End::fails;
  } catch (const Raised& raised) {
    tried = {Tried::End::raises, raised.text};
  } catch (const Refusal&) {
    tried.end = Tried::End::fails;
  } catch (const Changing&) {  // allowed when only this side is taken
  } catch (const Growing&) {
  } catch (...) {
    memory_.leave();
    throw;
  }
  memory_.leave();
  attempt.undo();
  return tried;
}

void Interpreter::require(const Item& condition, bool wanted, std::string_view message) {
  if (const auto truth = decided(condition)) {
    if (*truth != wanted) throw Raised{std::string(message)};
    return;
  }
  const auto scalar = scalar_of(condition);
  if (const auto sizes = scalar ? to_boolean(*scalar) : std::nullopt)
    return assume(*sizes, wanted, "a check that raises an exception");
  Graph& g = memory_.graph();
  Value holds = memory_.read(data_condition(condition));
  memory_.learn_signs(holds, wanted);
  if (!wanted) holds = g.call("logical_not", {holds});
  g.call("assert_true", {holds},
         {{"message",
           str_cat("the model raises an exception", message.empty() ? "" : ": ", message)}});
}

std::vector<Item> Interpreter::block_items(const std::vector<ScriptId>& ids) const {
  std::vector<Item> items;
  for (const ScriptId id : ids) items.push_back(get(id));
  return items;
}

TensorRef Interpreter::data_condition(const Item& item) {
  const Value value = cast(number_value(memory_, item), boolean);
  return memory_.make_number(
      value.rank() == 0 ? value
                        : value.graph()->call("reshape", {value}, {{"shape", std::vector<Dim>()}}));
}

// If possible, the `if` becomes one graph node for all sizes, alone or together with the nodes
// after it. If the sides differ in rank, structure or types, or if one of them fails, one side is
// taken with a guard.
void Interpreter::if_on_sizes(const ScriptNode& node, const Item& item, const Scalar& condition) {
  const bool may_split = splits_.take();
  Attempt attempt(*this);
  try {
    if_on_data(node, item, &condition);
    if (!attempt.has_failed()) return;
  } catch (const Refusal&) {
  } catch (const Raised&) {
  }
  attempt.undo();
  const Tried::End yes = try_alone(node.blocks[0]).end, no = try_alone(node.blocks[1]).end;
  if (yes == Tried::End::runs && no == Tried::End::runs) {
    if (may_split) throw Splitting{condition};
    const bool likely = squeezing_side(node).value_or(usual_value(condition.top).value_or(1) != 0);
    return take(node, take_fork(condition, likely, "`if`") ? 0 : 1);
  }
  int side = usual_value(condition.top).value_or(1) != 0 ? 0 : 1;
  if (const auto usual = side == 0 ? yes : no;
      usual != Tried::End::runs && usual < (side == 0 ? no : yes))
    side = 1 - side;
  assume(condition, side == 0, "`if`");
  take(node, side);
}

// If the sides differ in rank, the `if` and the nodes after it become one graph node.
void Interpreter::if_or_split(const ScriptNode& node, const Item& item) {
  if (!splits_.take()) return if_on_data(node, item, nullptr);
  Attempt attempt(*this);
  try {
    return if_on_data(node, item, nullptr);
  } catch (const Refusal&) {
  }
  attempt.undo();
  if (try_alone(node.blocks[0]).end == Tried::End::runs &&
      try_alone(node.blocks[1]).end == Tried::End::runs)
    throw Splitting{std::nullopt, node.inputs.at(0)};
  if_on_data(node, item, nullptr);  // throws with the reason
}

void Interpreter::if_on_data(const ScriptNode& node, const Item& item, const Scalar* sizes) {
  Growths grown(*this);
  for (std::vector<Item> held;;) {
    try {
      BranchNode branch(*this, node, item, sizes, held);
      branch.build() ? branch.add_node() : poison_outputs(node);
      return grown.keep();
    } catch (const Changing& found) {
      identities_.check_change(found.container);
      for (const Item& other : held)
        if (holds(found.container, identity_of(other)) ||
            holds(other, identity_of(found.container)))
          throw Refusal{"a branch changes a list or dict and another inside it", ""};
      held.push_back(found.container);
    } catch (const Growing& found) {
      if (identities_.is_outer(found.list.get())) throw;
      grown.grow(found);
    }
  }
}

}  // namespace hg::convert
