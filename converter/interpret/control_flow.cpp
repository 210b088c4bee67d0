// SPDX-License-Identifier: Apache-2.0
// If: followed where constants and sizes decide, kept as a graph op where data does.
#include <algorithm>
#include <optional>

#include "converter/interpret/attempt.h"
#include "converter/interpret/held.h"
#include "converter/interpret/leaving.h"
#include "converter/rows/view.h"

namespace hg::convert {
namespace {

// Of a number as a tensor.
TensorType number_type(const Item& item) {
  return {item.is_bool() ? boolean : item.is_int() ? i64 : f64, {}};
}

DType common_dtype(DType a, DType b) {
  if (a == b) return a;
  return is_float(a) || is_float(b) ? f64 : i64;
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
          if (frozen_.insert(value.get()).second) containers_.push_back(value);
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
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&a.value); list && !(*list)->grown) {
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
  if (is_outer(a) || is_outer(b))
    for (const Item* each : {&a, &b, static_cast<const Item*>(&result)}) freeze(*each);
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

bool Interpreter::may_grow(const void* list) const {
  return !frozen_.contains(list) && depth_of(list) < memory_.depth();
}

void Interpreter::check_change(const Item& container) const {
  const void* const identity = identity_of(container);
  if (frozen_.contains(identity))
    throw Refusal{"a list or dict is changed, and data decides whether it is the same as another",
                  "make a new one"};
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
    if (ends_in_raise(node.blocks[static_cast<size_t>(side)])) raising = side;
  if (raising >= 0) {
    require(condition, raising == 1, try_alone(node.blocks[size_t(raising)]).exception);
    return take(node, 1 - raising);
  }
  if (sizes) return if_on_sizes(node, condition, *sizes);
  if_on_data(node, condition, nullptr);
}

void Interpreter::take(const ScriptNode& node, int side) {
  const ScriptBlock& block = node.blocks.at(static_cast<size_t>(side));
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
  if (!wanted) holds = g.call("logical_not", {holds});
  g.call(
      "assert_true", {holds},
      {{"message", text("the model raises an exception", message.empty() ? "" : ": ", message)}});
}

std::vector<Item> Interpreter::block_results(const ScriptBlock& block) const {
  std::vector<Item> results;
  for (const ScriptId id : block.outputs) results.push_back(get(id));
  return results;
}

TensorRef Interpreter::data_condition(const Item& item) {
  const Value value = cast(number_value(memory_, item), boolean);
  return memory_.make_number(
      value.rank() == 0 ? value
                        : value.graph()->call("reshape", {value}, {{"shape", std::vector<Dim>()}}));
}

// One side of an `if` that data decides.
struct Interpreter::Side {
  std::vector<Item> results;
  std::vector<const Item*> leaves;
  std::map<const void*, TensorType> types;  // of tensors; the side alone may know its views
  TensorType type(const Item& leaf) const {
    const auto found = types.find(identity_of(leaf));
    return found != types.end() ? found->second : number_type(leaf);
  }
  std::vector<bool> row_major;  // by leaf
  std::optional<Leaving> leaving;
  Memory::Region region;
};

// What stands for a value that the other side alone has.
Value Interpreter::filler(const TensorType& type) {
  const std::set<std::string> known = memory_.symbols_outside();
  Shape shape = type.shape;
  for (Dim& dim : shape) {
    std::vector<std::string> symbols;
    dim.collect_symbols(symbols);
    for (const std::string& symbol : symbols)
      if (!known.contains(symbol)) dim = 0;
  }
  return rows::zeros(memory_.graph(), type.dtype, shape);
}

namespace {

// Whether a symbol is younger than `last`, so that only a body knows it.
bool is_inner(const Dim& dim, const Dim& last) {
  const auto age = [](std::string_view symbol) -> std::optional<int64_t> {
    int64_t number = 0;
    if (symbol.size() < 2 || symbol.size() > 10 || symbol[0] != 'u') return std::nullopt;
    for (const char c : symbol.substr(1)) {
      if (c < '0' || c > '9') return std::nullopt;
      number = number * 10 + (c - '0');
    }
    return number;
  };
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(),
                     [&](const std::string& s) { return age(s) > age(last.symbol()); });
}

Dim select(const Dim& condition, const Dim& a, const Dim& b) {
  return a == b ? a : condition * a + (1 - condition) * b;
}

// a where the condition is 1, and b where it is 0; none where that is no term of sizes.
std::optional<Item> chosen(Memory& memory, const Dim& condition, const Item& a, const Item& b,
                           const Dim& last) {
  if (!is_numeric(a) || !is_numeric(b)) return std::nullopt;
  const auto x = scalar_of(a), y = scalar_of(b);
  if (!x || !y || x->kind != y->kind || !x->is_integral() || is_inner(x->top, last) ||
      is_inner(y->top, last))
    return std::nullopt;
  return item_of(memory, {x->kind, select(condition, x->top, y->top), 1, 0, {}});
}

// What one side of an `if` takes for granted, for numbers that leave it without the node: there the
// condition is 1, or a guard of the side holds.
void lift_guards(const Graph& side, const Dim& condition, const Dim& last, Graph& graph) {
  for (const Guard& guard : side.guards()) {
    if (is_inner(guard.left, last) || is_inner(guard.right, last)) continue;
    constexpr std::string_view kOps[] = {"eq", "ne", "lt", "le"};
    const auto holds = relate(kOps[static_cast<size_t>(guard.relation)], Scalar::of(guard.left),
                              Scalar::of(guard.right));
    graph.guard(max(condition, holds->top), Relation::eq, 1, guard.reason);
  }
}

}  // namespace

// What can be one node of the graph becomes one, whichever way the sizes go. Where the two ways
// differ in rank, structure or types, or one of them fails, the usual one is taken under a guard.
void Interpreter::if_on_sizes(const ScriptNode& node, const Item& item, const Scalar& condition) {
  Attempt attempt(*this);
  try {
    if_on_data(node, item, &condition);
    if (!attempt.has_failed()) return;
  } catch (const Refusal&) {
  } catch (const Raised&) {
  }
  attempt.undo();
  const auto end_of = [&](int side) { return try_alone(node.blocks[size_t(side)]).end; };
  int side = usual_value(condition.top).value_or(1) != 0 ? 0 : 1;
  if (const auto usual = end_of(side); usual != Tried::End::runs && usual < end_of(1 - side))
    side = 1 - side;
  assume(condition, side == 0, "`if`");
  take(node, side);
}

void Interpreter::if_on_data(const ScriptNode& node, const Item& item, const Scalar* sizes) {
  std::vector<std::pair<Item, Item>> grown;  // lists that became tensors, and what they were
  for (std::vector<Item> held;;) {
    try {
      return merge_sides(node, item, sizes, held);
    } catch (const Changing& found) {
      check_change(found.container);
      for (const Item& other : held)
        if (holds(found.container, identity_of(other)) ||
            holds(other, identity_of(found.container)))
          throw Refusal{"a branch changes a list or dict and another inside of it", ""};
      held.push_back(found.container);
    } catch (const Growing& found) {
      if (may_grow(found.list.get())) throw;
      grown.emplace_back(Item(found.list), snapshot(Item(found.list)));
      start_growing(memory_, found);
    } catch (...) {
      for (const auto& [list, before] : grown) restore(list, before);
      throw;
    }
  }
}

void Interpreter::merge_sides(const ScriptNode& node, const Item& item, const Scalar* sizes,
                              const std::vector<Item>& held) {
  const size_t failures = result_.unsupported.size();
  const Dim last = memory_.graph().fresh_symbol();
  // Each side is run once to see what it gives, reads and writes, and again, now that the other is
  // known, to become a subgraph: both take the same inputs and give the same outputs.
  const auto run_side = [&](int side, const Side* other, const std::vector<Value>& captured,
                            const auto& finish) {
    Side result;
    memory_.enter({});
    Held holding(*this, held);
    const Given given(*this, sizes, side == 0);
    try {
      for (const Value& value : captured) memory_.capture(value);
      const ScriptBlock& block = node.blocks[static_cast<size_t>(side)];
      run_block(block);
      result.results = block_results(block);
      for (const Item& container : held) {
        result.results.push_back(snapshot(container));
        made(result.results.back());
      }
      for (size_t i = 0; other != nullptr && i < result.results.size(); ++i)
        result.results[i] = defined_like(result.results[i], other->results[i]);
      for (const Item& leaf : result.results) collect(leaf, result.leaves);
      std::vector<TensorRef> tensors;
      for (const Item* leaf : result.leaves) {
        tensors.push_back(tracks_memory_ ? tensor_of(*leaf) : nullptr);
        if (const auto* tensor = std::get_if<TensorRef>(&leaf->value);
            tensor != nullptr && !(*tensor)->is_poisoned())
          result.types.emplace(tensor->get(), memory_.type(*tensor));
        result.row_major.push_back(tensors.back() && !tensors.back()->is_poisoned() &&
                                   memory_.is_surely_row_major(tensors.back()));
      }
      if (result_.unsupported.size() == failures) {
        result.leaving.emplace(memory_, tensors);
        finish(result);
      }
      if (Status status = memory_.graph().take_status(); !status.ok())
        throw Refusal{std::string(status.message()), ""};
    } catch (...) {
      memory_.leave();
      throw;
    }
    result.region = memory_.leave();
    return result;
  };
  Side yes = run_side(0, nullptr, {}, [](const Side&) {});
  const Side no = run_side(1, &yes, yes.region.captured, [](const Side&) {});
  yes.leaves.clear();
  for (size_t i = 0; i < yes.results.size(); ++i) {
    yes.results[i] = defined_like(yes.results[i], no.results[i]);
    collect(yes.results[i], yes.leaves);
  }
  if (result_.unsupported.size() > failures) return poison_outputs(node);

  for (size_t i = 0; i < yes.results.size(); ++i)
    if (!same_structure(yes.results[i], no.results[i]))
      throw Refusal{
          text("data decides between ", describe(yes.results[i]), " and ", describe(no.results[i])),
          ""};
  std::vector<bool> kept;  // outside of the node: what both ways share, or sizes say
  std::vector<Item> outside(yes.leaves.size());
  for (size_t i = 0; i < yes.leaves.size(); ++i) {
    const Item &a = *yes.leaves[i], &b = *no.leaves[i];
    kept.push_back(keeps(a, b) || (is_undefined(a) && (is_undefined(b) || is_constant(b))) ||
                   (is_undefined(b) && is_constant(a)));
    if (kept.back()) {
      outside[i] = is_undefined(a) ? b : a;
      continue;
    }
    if (auto number = sizes ? chosen(memory_, sizes->top, a, b, last) : std::nullopt) {
      outside[i] = *std::move(number);
      kept.back() = true;
      continue;
    }
    for (const Item* side : {&a, &b})
      if (!side->is_tensor() && !is_numeric(*side) && !is_undefined(*side))
        throw Refusal{text("data decides between ", describe(a), " and ", describe(b)), ""};
    if (is_complex(a) != is_complex(b) && !is_undefined(a) && !is_undefined(b))
      throw Refusal{"data decides between a complex tensor and a real one", ""};
  }
  // Tensors from outside that either side writes, and those that are no longer known.
  const Side* const sides[] = {&yes, &no};
  std::vector<TensorRef> touched, doubted;
  for (const Side* side : sides)
    doubted.insert(doubted.end(), side->region.doubted.begin(), side->region.doubted.end());
  for (const Side* side : sides)
    for (const Memory::Write& write : side->region.writes)
      if (std::find(touched.begin(), touched.end(), write.root) == touched.end() &&
          std::find(doubted.begin(), doubted.end(), write.root) == doubted.end())
        touched.push_back(write.root);

  if (sizes) {
    lift_guards(*yes.region.graph, 1 - sizes->top, last, memory_.graph());
    lift_guards(*no.region.graph, sizes->top, last, memory_.graph());
  }
  bool is_first = true;
  const auto finish = [&](const Side& present) {
    Graph& g = memory_.graph();
    for (size_t i = 0; i < kept.size(); ++i) {
      if (kept[i]) continue;
      const Item& mine = *present.leaves[i];
      const Item &a = *yes.leaves[i], &b = *no.leaves[i];
      Value value;
      if (is_undefined(mine)) {
        value = filler(is_undefined(a) ? no.type(b) : yes.type(a));
      } else {
        value = number_value(memory_, mine);
        if (is_numeric(a) && is_numeric(b))
          value = cast(value, common_dtype(yes.type(a).dtype, no.type(b).dtype));
      }
      g.output("", value);
    }
    for (const TensorRef& root : touched) g.output("", memory_.read(root));
    for (const Side* side : sides) {
      const bool is_mine = side == (is_first ? &yes : &no);
      if (is_mine && present.leaving->told().size() != side->leaving->types().size())
        throw Refusal{"what a branch shares memory with is not found out", ""};
      for (size_t i = 0; i < side->leaving->types().size(); ++i)
        g.output("", is_mine ? present.leaving->told()[i] : filler(side->leaving->types()[i]));
    }
  };
  Side first = run_side(0, &no, no.region.captured, finish);
  is_first = false;
  Side second = run_side(1, &yes, first.region.captured, finish);
  if (result_.unsupported.size() > failures) return poison_outputs(node);
  for (size_t i = first.region.captured.size(); i < second.region.captured.size(); ++i) {
    const Value& value = second.region.captured[i];
    first.region.graph->input(text("in_", static_cast<int64_t>(i)), value.dtype(), value.shape());
  }
  const auto give_back = [&](Merge& merge) {
    const size_t count = node.outputs.size();
    for (size_t i = 0; i < yes.results.size(); ++i) {
      const Item result = merged(yes.results[i], no.results[i], merge);
      if (i < count)
        set(node.outputs[i], result);
      else
        restore(held[i - count], result);
    }
  };
  const bool has_outputs = !first.region.graph->outputs().empty();
  const bool is_needed =
      has_outputs || has_assertions(*first.region.graph) || has_assertions(*second.region.graph);
  if (is_needed && !has_outputs)  // a node gives something
    for (const Side* side : {&first, &second}) {
      Graph& body = *side->region.graph;
      body.output("", body.scalar(int64_t{0}, boolean));
    }
  if (!is_needed) {  // nothing that shows: a print
    Merge same;
    same.leaves = outside;
    give_back(same);
    return memory_.doubt(doubted);
  }
  const Value condition = memory_.read(data_condition(item));
  std::vector<Value> inputs = {condition};
  inputs.insert(inputs.end(), second.region.captured.begin(), second.region.captured.end());
  std::vector<Value> outputs =
      memory_.graph().calls("if", inputs, {}, {first.region.graph, second.region.graph});
  if (Status status = memory_.graph().take_status(); !status.ok())
    throw Refusal{std::string(status.message()), ""};
  // Sizes that the node makes new symbols of, though they are terms of those outside.
  for (size_t k = 0; k < outputs.size(); ++k) {
    const auto shape_in = [&](const Memory::Region& region) -> const Shape& {
      return region.graph->value_info(region.graph->outputs()[k].second).type.shape;
    };
    const Shape &a = shape_in(first.region), &b = shape_in(second.region);
    Shape shape = outputs[k].shape();
    for (size_t d = 0; d < shape.size(); ++d)
      if ((sizes || a[d] == b[d]) && !is_inner(a[d], last) && !is_inner(b[d], last))
        shape[d] = a[d] == b[d] ? a[d] : select(sizes->top, a[d], b[d]);
    if (shape != outputs[k].shape())
      outputs[k] = memory_.graph().call("reshape", {outputs[k]}, {{"shape", shape}});
  }

  size_t next = static_cast<size_t>(std::count(kept.begin(), kept.end(), false));
  for (const TensorRef& root : touched) memory_.write(root, outputs[next++]);
  memory_.doubt(doubted);
  for (Side* side : {&first, &second}) {
    const size_t told = side->leaving->told().size();
    side->leaving->arrive(std::span(outputs).subspan(next, told));
    next += told;
  }
  Merge merge;
  next = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    const Item& typed = is_undefined(*yes.leaves[i]) ? *no.leaves[i] : *yes.leaves[i];
    if (kept[i]) {
      merge.leaves.push_back(outside[i]);
    } else if (is_numeric(typed)) {
      merge.leaves.emplace_back(memory_.make_number(outputs[next++]));
    } else {
      const Value value = outputs[next++];
      TensorRef own, is_on[2];
      bool is_row_major = true;
      for (Side* side : {&first, &second}) {
        TensorRef& is = is_on[side == &second];
        is = side->leaving->outside(i);
        if (is || is_undefined(*side->leaves[i])) continue;
        if (!own) own = memory_.make_like(std::get<TensorRef>(typed.value), value);
        is_row_major &= side->row_major[i];
        side->leaving->became(i, own);
        is = own;
      }
      if (own && is_row_major) memory_.set_row_major(own);
      const bool is_one = is_on[0] == is_on[1] || (own && (!is_on[0] || !is_on[1]));
      merge.leaves.emplace_back(is_one ? (is_on[0] ? is_on[0] : is_on[1])
                                       : memory_.make_choice(condition, is_on[0], is_on[1], value));
    }
  }
  for (Side* side : {&first, &second}) side->leaving->share();
  give_back(merge);
  kept_control_ = true;
}

}  // namespace hg::convert
