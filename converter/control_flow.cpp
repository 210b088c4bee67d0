// SPDX-License-Identifier: Apache-2.0
// If and loop: followed where constants and sizes decide, kept as graph ops where data does.
#include <algorithm>

#include "converter/interpreter.h"

namespace hg::convert {
namespace {

constexpr int64_t kMostTrips = 100000;  // of an unrolled loop
constexpr int kMostPasses = 16;         // over the body of a loop, to find out what it changes

// True or false, or none when data or symbols decide.
std::optional<bool> decided(const Item& item) {
  const auto scalar = scalar_of(item);
  const auto truth = scalar ? to_boolean(*scalar) : std::nullopt;
  if (!truth) return std::nullopt;
  return truth->top != Dim(0);
}

// The tensors and numbers inside of an item, in order.
void collect(const Item& item, std::vector<const Item*>& leaves) {
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
    for (const Item& element : (*list)->items) collect(element, leaves);
  } else if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value)) {
    for (const Item& element : (*tuple)->items) collect(element, leaves);
  } else if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value)) {
    for (const auto& [key, value] : (*dict)->items) collect(value, leaves);
  } else {
    leaves.push_back(&item);
  }
}

// The same containers with other leaves.
Item rebuild(const Item& item, const std::vector<Item>& leaves, size_t& next) {
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&item.value)) {
    auto copy = std::make_shared<List>();
    for (const Item& element : (*list)->items)
      copy->items.push_back(rebuild(element, leaves, next));
    return Item(std::move(copy));
  }
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&item.value)) {
    auto copy = std::make_shared<Tuple>();
    copy->names = (*tuple)->names;
    for (const Item& element : (*tuple)->items)
      copy->items.push_back(rebuild(element, leaves, next));
    return Item(std::move(copy));
  }
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&item.value)) {
    auto copy = std::make_shared<Dict>();
    for (const auto& [key, value] : (*dict)->items)
      copy->items.emplace_back(key, rebuild(value, leaves, next));
    return Item(std::move(copy));
  }
  return leaves[next++];
}

bool same_structure(const Item& a, const Item& b) {
  const auto both = [&](const std::vector<Item>& x, const std::vector<Item>& y) {
    return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), same_structure);
  };
  if (const auto* list = std::get_if<std::shared_ptr<List>>(&a.value))
    return b.is_list() && both((*list)->items, std::get<std::shared_ptr<List>>(b.value)->items);
  if (const auto* tuple = std::get_if<std::shared_ptr<Tuple>>(&a.value))
    return b.is_tuple() && both((*tuple)->items, std::get<std::shared_ptr<Tuple>>(b.value)->items);
  if (const auto* dict = std::get_if<std::shared_ptr<Dict>>(&a.value)) {
    if (!b.is_dict()) return false;
    const auto &x = (*dict)->items, &y = std::get<std::shared_ptr<Dict>>(b.value)->items;
    return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), [](auto& p, auto& q) {
             return equal(p.first, q.first).value_or(false) && same_structure(p.second, q.second);
           });
  }
  return !b.is_list() && !b.is_tuple() && !b.is_dict();
}

bool is_numeric(const Item& item) {
  return item.is_number() || (item.is_tensor() && std::get<TensorRef>(item.value)->is_number());
}

// Neither a tensor nor a number that could become one, or the same constant in both.
bool keeps(const Item& a, const Item& b) {
  if (a.is_tensor() && b.is_tensor())
    return std::get<TensorRef>(a.value) == std::get<TensorRef>(b.value);
  if (a.is_none() && b.is_none()) return true;
  return equal(a, b).value_or(false);
}

// What prim::Uninitialized gives: a value that is never read, whatever it is.
bool is_undefined(const Item& item) {
  const auto* object = std::get_if<std::shared_ptr<Object>>(&item.value);
  return object != nullptr && (*object)->type == kUndefined;
}

// The dtype of a number as a tensor.
DType number_dtype(Memory& memory, const Item& item) {
  if (const auto* tensor = std::get_if<TensorRef>(&item.value)) return memory.type(*tensor).dtype;
  return item.is_bool() ? boolean : item.is_int() ? i64 : f64;
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

void Interpreter::check_change(const void* container) const {
  if (memory_.depth() == 0) return;
  const auto found = container_depth_.find(container);
  if (found == container_depth_.end() || found->second < memory_.depth())
    throw Refusal{
        "a list, dict or attribute is changed where data or a symbolic size decide whether "
        "it happens",
        "write into a tensor of the final size, or give a size that counts the steps as a "
        "number"};
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
  int taken = -1;
  if (const auto truth = decided(condition)) {
    taken = *truth ? 0 : 1;
  } else {
    // An exception that data decides cannot be thrown by a graph: the check is left out.
    for (int side = 0; side < 2; ++side)
      if (ends_in_raise(node.blocks[static_cast<size_t>(side)])) taken = 1 - side;
    if (taken >= 0)
      note(text("a check that raises an exception is left out: ",
                node.origin.module.empty() ? node.origin.source : node.origin.module));
  }
  if (taken < 0) return if_on_data(node, condition);
  const ScriptBlock& block = node.blocks.at(static_cast<size_t>(taken));
  run_block(block);
  for (size_t i = 0; i < node.outputs.size(); ++i) set(node.outputs[i], get(block.outputs[i]));
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
  Memory::Region region;
};

void Interpreter::if_on_data(const ScriptNode& node, const Item& item) {
  const Value condition = memory_.read(data_condition(item));
  const size_t failures = result_.unsupported.size();
  // Each side is run once to see what it gives, reads and writes, and again, now that the other is
  // known, to become a subgraph: both take the same inputs and give the same outputs.
  const auto run_side = [&](int side, const std::vector<Value>& captured, const auto& finish) {
    Side result;
    memory_.enter({});
    try {
      for (const Value& value : captured) memory_.capture(value);
      const ScriptBlock& block = node.blocks[static_cast<size_t>(side)];
      run_block(block);
      result.results = block_results(block);
      for (const Item& leaf : result.results) collect(leaf, result.leaves);
      finish(result);
      if (Status status = memory_.graph().take_status(); !status.ok())
        throw Refusal{std::string(status.message()), ""};
    } catch (...) {
      memory_.leave();
      throw;
    }
    result.region = memory_.leave();
    return result;
  };
  const Side yes = run_side(0, {}, [](const Side&) {});
  const Side no = run_side(1, yes.region.captured, [](const Side&) {});
  if (result_.unsupported.size() > failures) return poison_outputs(node);

  for (size_t i = 0; i < yes.results.size(); ++i)
    if (!same_structure(yes.results[i], no.results[i]))
      throw Refusal{
          text("data decides between ", describe(yes.results[i]), " and ", describe(no.results[i])),
          ""};
  std::vector<bool> kept;
  for (size_t i = 0; i < yes.leaves.size(); ++i) {
    const Item &a = *yes.leaves[i], &b = *no.leaves[i];
    kept.push_back(keeps(a, b) || (is_undefined(a) && is_undefined(b)));
    if (kept.back()) continue;
    for (const Item* side : {&a, &b})
      if (!side->is_tensor() && !is_numeric(*side) && !is_undefined(*side))
        throw Refusal{text("data decides between ", describe(a), " and ", describe(b)), ""};
  }
  std::vector<TensorRef> touched;  // tensors from outside that either side writes
  for (const Side* side : {&yes, &no})
    for (const Memory::Write& write : side->region.writes)
      if (std::find(touched.begin(), touched.end(), write.root) == touched.end())
        touched.push_back(write.root);

  const auto finish = [&](const Side& present) {
    Graph& g = memory_.graph();
    for (size_t i = 0; i < kept.size(); ++i) {
      if (kept[i]) continue;
      const Item& mine = *present.leaves[i];
      const Item &a = *yes.leaves[i], &b = *no.leaves[i];
      const Item& typed = is_undefined(a) ? b : a;
      Value value;
      if (is_undefined(mine)) {
        const TensorType type = typed.is_tensor() ? memory_.type(std::get<TensorRef>(typed.value))
                                                  : TensorType{number_dtype(memory_, typed), {}};
        value = cast(g.call("expand", {g.scalar(int64_t{0}, i64)}, {{"shape", type.shape}}),
                     type.dtype);
      } else {
        value = number_value(memory_, mine);
        if (is_numeric(a) && is_numeric(b))
          value = cast(value, common_dtype(number_dtype(memory_, a), number_dtype(memory_, b)));
      }
      g.output("", value);
    }
    for (const TensorRef& root : touched) g.output("", memory_.read(root));
  };
  const Side first = run_side(0, no.region.captured, finish);
  const Side second = run_side(1, first.region.captured, finish);
  for (size_t i = first.region.captured.size(); i < second.region.captured.size(); ++i) {
    const Value& value = second.region.captured[i];
    first.region.graph->input(text("in_", static_cast<int64_t>(i)), value.dtype(), value.shape());
  }
  std::vector<Value> inputs = {condition};
  inputs.insert(inputs.end(), second.region.captured.begin(), second.region.captured.end());
  const std::vector<Value> outputs =
      memory_.graph().calls("if", inputs, {}, {first.region.graph, second.region.graph});
  if (Status status = memory_.graph().take_status(); !status.ok())
    throw Refusal{std::string(status.message()), ""};

  std::vector<Item> merged;
  size_t next = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    const Item& typed = is_undefined(*yes.leaves[i]) ? *no.leaves[i] : *yes.leaves[i];
    if (kept[i])
      merged.push_back(typed);
    else if (is_numeric(typed))
      merged.emplace_back(memory_.make_number(outputs[next++]));
    else
      merged.emplace_back(memory_.make(outputs[next++]));
  }
  for (const TensorRef& root : touched) memory_.write(root, outputs[next++]);
  next = 0;
  for (size_t i = 0; i < node.outputs.size(); ++i)
    set(node.outputs[i], rebuild(yes.results[i], merged, next));
}

void Interpreter::run_loop(const ScriptNode& node) {
  // inputs: trip count, condition, carried values; block: counter, carried -> condition, carried
  const Item trips = get(node.inputs.at(0));
  Item condition = get(node.inputs.at(1));
  const ScriptBlock& block = node.blocks.at(0);
  const size_t carried = node.outputs.size();
  for (size_t i = 0; i < carried; ++i) set(block.inputs[i + 1], get(node.inputs[i + 2]));
  int64_t done = 0;
  for (;;) {
    for (const Item* item : {&trips, static_cast<const Item*>(&condition)})
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
    if (!go_on || !count || !count->is_constant())
      return while_on_data(node, trips, done, condition);
    if (done >= kMostTrips) throw Refusal{text("a loop runs more than ", kMostTrips, " times"), ""};
    set(block.inputs[0], Item(done));
    run_block(block);
    ++done;
    condition = get(block.outputs[0]);
    std::vector<Item> next = block_results(block);
    for (size_t i = 0; i < carried; ++i) set(block.inputs[i + 1], next[i + 1]);
  }
  for (size_t i = 0; i < carried; ++i) set(node.outputs[i], get(block.inputs[i + 1]));
}

void Interpreter::while_on_data(const ScriptNode& node, const Item& trips, Dim done,
                                Item condition) {
  const ScriptBlock& block = node.blocks.at(0);
  const size_t carried = node.outputs.size();
  const size_t failures = result_.unsupported.size();
  const bool counted = !(scalar_of(trips) && scalar_of(trips)->is_constant() &&
                         scalar_of(trips)->as_double() > 1e15);  // `while` has no trip count
  std::vector<Item> start;
  for (size_t i = 0; i < carried; ++i) start.push_back(get(block.inputs[i + 1]));
  std::vector<const Item*> leaves;
  for (const Item& item : start) collect(item, leaves);

  const auto and_more = [&](Value go_on, Value counter) {
    if (!counted) return go_on;
    const Value limit = cast(number_value(memory_, trips), i64);
    return memory_.graph().call("logical_and",
                                {go_on, memory_.graph().call("lt", {counter, limit})});
  };
  const Value counter = memory_.materialize({i64, 0, {Scalar::of(done)}});
  const Value first = and_more(memory_.read(data_condition(condition)), counter);

  // Which leaves and which tensors from outside change is known after a first look at the body.
  std::vector<bool> changes(leaves.size(), true);
  std::set<std::pair<const Item*, size_t>> growing;  // leaves and their dims
  std::vector<TensorRef> touched;
  Memory::Region region;
  std::vector<Value> initial;
  std::vector<Item> last;
  for (int pass = 0;; ++pass) {
    if (pass == kMostPasses)
      throw Refusal{"what a loop whose end data decides changes is not found out", ""};
    initial = {counter};
    std::set<std::pair<size_t, size_t>> sizes;  // that change, of `initial`
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!changes[i]) continue;
      if (!leaves[i]->is_tensor() && !is_numeric(*leaves[i])) {
        changes[i] = false;
        continue;
      }
      for (const auto& [leaf, dim] : growing)
        if (leaf == leaves[i]) sizes.emplace(initial.size(), dim);
      initial.push_back(number_value(memory_, *leaves[i]));
    }
    for (const TensorRef& root : touched) initial.push_back(memory_.read(root));
    const std::vector<Value> inside = memory_.enter(initial, sizes);
    size_t next = 1;
    std::vector<Item> items;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!changes[i])
        items.push_back(*leaves[i]);
      else if (is_numeric(*leaves[i]))
        items.emplace_back(memory_.make_number(inside[next++]));
      else
        items.emplace_back(memory_.make(inside[next++]));
    }
    for (const TensorRef& root : touched) memory_.set_root(root, inside[next++]);
    next = 0;
    for (size_t i = 0; i < carried; ++i) {
      Item item = rebuild(start[i], items, next);
      set(block.inputs[i + 1], item);
    }
    set(block.inputs[0], Item(memory_.make_number(inside[0])));
    bool settled = true;
    try {
      run_block(block);
      last = block_results(block);
      if (result_.unsupported.size() > failures) {
        memory_.leave();
        return poison_outputs(node);
      }
      std::vector<const Item*> after;
      for (size_t i = 0; i < carried; ++i) {
        if (!same_structure(start[i], last[i + 1]))
          throw Refusal{text("a loop whose end data decides changes ", describe(start[i]), " to ",
                             describe(last[i + 1])),
                        ""};
        collect(last[i + 1], after);
      }
      for (size_t i = 0; i < leaves.size(); ++i) {
        const bool same = keeps(items[i], *after[i]);
        if (changes[i] && same) {
          changes[i] = false;
          settled = false;
        } else if (!changes[i] && !same) {
          throw Refusal{text("a loop whose end data decides changes ", describe(items[i])), ""};
        }
      }
      Graph& g = memory_.graph();
      const Value one = g.scalar(int64_t{1}, i64);
      const Value advanced = g.call("add", {inside[0], one});
      g.output("", and_more(memory_.read(data_condition(last[0])), advanced));
      g.output("", advanced);
      size_t k = 1;
      for (size_t i = 0; i < leaves.size(); ++i)
        if (changes[i]) {
          const Value value = cast(number_value(memory_, *after[i]), initial[k].dtype());
          const Shape &before = inside[k++].shape(), &shape = value.shape();
          g.output("", value);
          for (size_t d = 0; d < shape.size() && shape.size() == before.size(); ++d)
            if (!(shape[d] == before[d])) settled &= !growing.emplace(leaves[i], d).second;
        }
      for (const TensorRef& root : touched) g.output("", memory_.read(root));
      if (Status status = g.take_status(); !status.ok())
        throw Refusal{std::string(status.message()), ""};
    } catch (...) {
      memory_.leave();
      throw;
    }
    region = memory_.leave();
    for (const Memory::Write& write : region.writes)
      if (std::find(touched.begin(), touched.end(), write.root) == touched.end()) {
        touched.push_back(write.root);
        settled = false;
      }
    if (settled) break;
  }
  std::vector<Value> inputs = {first};
  inputs.insert(inputs.end(), region.captured.begin(), region.captured.end());
  const std::vector<Value> outputs = memory_.graph().calls("while", inputs, {}, {region.graph});
  if (Status status = memory_.graph().take_status(); !status.ok())
    throw Refusal{std::string(status.message()),
                  "what grows in a loop that data ends can be written into a tensor of the final "
                  "size, made before the loop"};
  size_t next = 1;
  std::vector<Item> results;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!changes[i])
      results.push_back(*leaves[i]);
    else if (is_numeric(*leaves[i]))
      results.emplace_back(memory_.make_number(outputs[next++]));
    else
      results.emplace_back(memory_.make(outputs[next++]));
  }
  for (const TensorRef& root : touched) memory_.write(root, outputs[next++]);
  next = 0;
  for (size_t i = 0; i < carried; ++i) set(node.outputs[i], rebuild(start[i], results, next));
}

}  // namespace hg::convert
