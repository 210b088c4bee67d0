// SPDX-License-Identifier: Apache-2.0
// `if`: followed if constants or sizes decide, kept as a graph op if data decides.
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

// The side that squeezes, where the other one passes its tensor on: exporters write x.squeeze(1)
// so, whose author knows the dim to be 1.
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

void Interpreter::made(const Item& item) {
  if (memory_.depth() == 0) return;
  const auto mark = [&](std::shared_ptr<void> container) {
    if (container_depth_.emplace(container.get(), memory_.depth()).second)
      containers_.push_back(std::move(container));
  };
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) mark(*list);
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value)) mark(*dict);
  if (const auto* object = std::get_if<std::shared_ptr<Object>>(&item.value)) mark(*object);
}

void Interpreter::freeze(const Item& container) {
  std::visit(
      [&](const auto& value) {
        if constexpr (requires { value.get(); }) {
          if (marks_.frozen.insert(value.get()).second) containers_.push_back(value);
        }
      },
      container.value);
}

Item Interpreter::merged(const Item& a, const Item& b, Merge& merge) {
  const auto is_outer = [&](const Item& item) {
    return depth_of(identity_of(item)) <= memory_.depth();
  };
  const bool changes = a.is_list() || a.is_dict();
  if (changes && identity_of(a) == identity_of(b) && is_outer(a)) {
    std::vector<const Item*> inside;
    collect(a, inside);
    merge.next += inside.size();
    return a;
  }
  Item result;
  const auto* list = std::get_if<std::shared_ptr<List>>(&a.value);
  if (list && (*list)->grown) {
    result = rebuild(a, merge.leaves, merge.next);
  } else if (list) {
    const List& other = *std::get<std::shared_ptr<List>>(b.value);
    auto copy = std::make_shared<List>();
    for (size_t i = 0; i < (*list)->items.size(); ++i)
      copy->items.push_back(merged((*list)->items[i], other.items[i], merge));
    result = Item(std::move(copy));
  } else if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&a.value)) {
    const Tuple& other = *std::get<std::shared_ptr<Tuple>>(b.value);
    auto copy = std::make_shared<Tuple>();
    copy->names = (*tuple)->names;
    for (size_t i = 0; i < (*tuple)->items.size(); ++i)
      copy->items.push_back(merged((*tuple)->items[i], other.items[i], merge));
    return Item(std::move(copy));
  } else if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&a.value)) {
    const Dict& other = *std::get<std::shared_ptr<Dict>>(b.value);
    auto copy = std::make_shared<Dict>();
    for (size_t i = 0; i < (*dict)->items.size(); ++i) {
      const auto& [key, value] = (*dict)->items[i];
      copy->items.emplace_back(key, merged(value, other.items[i].second, merge));
    }
    result = Item(std::move(copy));
  } else {
    return merge.leaves[merge.next++];
  }
  made(result);
  marks_.merged_from[identity_of(result)] = {identity_of(a), identity_of(b)};
  if (is_outer(a) || is_outer(b))
    for (const Item* each : {&a, &b}) freeze(*each);
  for (const Item* each : {&a, &b})
    if (const auto [other, fresh] = merge.given.emplace(identity_of(*each), result); !fresh) {
      freeze(other->second);
      freeze(result);
    }
  return result;
}

int Interpreter::depth_of(const void* container) const {
  const auto found = container_depth_.find(container);
  return found == container_depth_.end() ? 0 : found->second;
}

void Interpreter::Marks::add(const Marks& other) {
  frozen.insert(other.frozen.begin(), other.frozen.end());
  stored.insert(other.stored.begin(), other.stored.end());
  stale.insert(other.stale.begin(), other.stale.end());
  merged_from.insert(other.merged_from.begin(), other.merged_from.end());
}

void Interpreter::check_frozen(const Item& container) {
  const void* const identity = identity_of(container);
  if (marks_.stored.contains(identity))
    throw Refusal{
        "a list or dict is changed that is an element of a list whose length data or sizes "
        "decide",
        "put a copy into the list: append(list(x))"};
  if (marks_.frozen.contains(identity))
    throw Refusal{"a list or dict is changed, and data decides whether it is the same as another",
                  "make a new one"};
  if (marks_.merged_from.contains(identity)) make_stale(identity);
}

void Interpreter::store(const Item& element) {
  const auto each = [&](const std::vector<Item>& items) {
    for (const Item& item : items) store(item);
  };
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&element.value))
    return each((*tuple)->items);
  if (!element.is_list() && !element.is_dict()) return;
  freeze(element);
  marks_.stored.insert(identity_of(element));
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&element.value)) each((*list)->items);
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&element.value))
    for (const auto& [key, value] : (*dict)->items) store(value);
}

Item Interpreter::fit(const Item& item, const Pattern& pattern) {
  Item result = fitted(memory_, item, pattern);
  if (identity_of(result) == identity_of(item)) return result;
  store(item);
  const auto mark = [&](const auto& self, const Item& each) -> void {
    made(each);
    if (const Items* items = elements_of(each))
      for (const Item& inner : *items) self(self, inner);
  };
  mark(mark, result);
  return result;
}

std::set<const void*> Interpreter::origins_of(const void* container,
                                              const std::vector<const void*>& known) const {
  std::set<const void*> origins;
  for (std::vector<const void*> next = {container}; !next.empty();) {
    const void* const at = next.back();
    next.pop_back();
    if (at == nullptr || !origins.insert(at).second ||
        std::find(known.begin(), known.end(), at) != known.end())
      continue;
    if (const auto found = marks_.merged_from.find(at); found != marks_.merged_from.end())
      next.insert(next.end(), found->second.begin(), found->second.end());
  }
  return origins;
}

// All that may be the container, but for itself.
void Interpreter::make_stale(const void* container) {
  const std::set<const void*> origins = origins_of(container);
  marks_.stale.insert(origins.begin(), origins.end());
  for (const auto& [other, from] : marks_.merged_from)
    for (const void* origin : origins_of(other))
      if (origins.contains(origin)) marks_.stale.insert(other);
  marks_.stale.erase(container);
}

void Interpreter::inherit(const Item& copy, const Item& known) {
  const void *const from = identity_of(known), *const to = identity_of(copy);
  if (marks_.frozen.contains(from)) freeze(copy);
  if (marks_.stored.contains(from)) marks_.stored.insert(to);
  if (const auto found = marks_.merged_from.find(from); found != marks_.merged_from.end())
    marks_.merged_from[to] = std::vector<const void*>(found->second);
}

void Interpreter::check_stale(const Item& item) const {
  if (marks_.stale.empty()) return;
  if (const Items* items = elements_of(item))
    for (const Item& each : *items) check_stale(each);
  if (marks_.stale.contains(identity_of(item)))
    throw Refusal{"a list or dict is used that may have been changed under another name",
                  "use a copy: list(x)"};
}

void Interpreter::check_change(const Item& container) {
  check_frozen(container);
  const void* const identity = identity_of(container);
  if (depth_of(identity) >= memory_.depth()) return;
  if (!container.is_object()) throw Changing{container};
  throw Refusal{
      "an attribute is changed where data or a symbolic size decide whether it happens",
      "write into a tensor that is there before, or give a size that counts the steps as a number"};
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
  const auto scalar = scalar_of(condition);
  const auto sizes = scalar ? to_boolean(*scalar) : std::nullopt;
  if (sizes)
    if (const auto truth = given(*sizes)) return take(node, *truth ? 0 : 1);
  int raising = -1;
  for (int side = 0; side < 2; ++side)
    if (ends_in_raise(node.blocks[side])) raising = side;
  if (raising >= 0) {
    require(condition, raising == 1, try_alone(node.blocks[size_t(raising)]).exception);
    return take(node, 1 - raising);
  }
  if (sizes) return if_on_sizes(node, condition, *sizes);
  if_on_data(node, condition, nullptr);
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
  } catch (const Changing&) {  // where the way is gone alone, it may
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

// What can be one node of the graph becomes one, whichever way the sizes go, or else together with
// the nodes after it. Where the two ways differ in rank, structure or types, or one of them fails,
// one is taken under a guard.
void Interpreter::if_on_sizes(const ScriptNode& node, const Item& item, const Scalar& condition) {
  const bool may_split = std::exchange(may_split_, false);
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

void Interpreter::if_on_data(const ScriptNode& node, const Item& item, const Scalar* sizes) {
  Growths grown(*this);
  for (std::vector<Item> held;;) {
    try {
      BranchNode branch(*this, node, item, sizes, held);
      branch.build() ? branch.add_node() : poison_outputs(node);
      return grown.keep();
    } catch (const Changing& found) {
      check_change(found.container);
      for (const Item& other : held)
        if (holds(found.container, identity_of(other)) ||
            holds(other, identity_of(found.container)))
          throw Refusal{"a branch changes a list or dict and another inside it", ""};
      held.push_back(found.container);
    } catch (const Growing& found) {
      if (is_outer(found.list.get())) throw;
      grown.grow(found);
    }
  }
}

}  // namespace hg::convert
