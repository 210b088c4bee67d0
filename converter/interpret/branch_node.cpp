// SPDX-License-Identifier: Apache-2.0
// Interprets both sides of an `if` and builds the graph node.
#include "converter/interpret/branch_node.h"

#include <algorithm>
#include <utility>

#include "converter/interpret/attempt.h"
#include "converter/rows/view.h"

namespace hg::convert {
namespace {

// The type of a number as a tensor.
TensorType number_type(const Item& item) {
  return {item.is_bool() ? boolean : item.is_int() ? i64 : f64, {}};
}

DType common_dtype(DType a, DType b) {
  if (a == b) return a;
  return is_float(a) || is_float(b) ? f64 : i64;
}

// A placeholder for a value that only the other side has.
Value filler(Memory& memory, const TensorType& type) {
  Shape shape = type.shape;
  for (Dim& dim : shape)
    if (!is_known(memory.symbols_outside(), dim)) dim = 0;
  return rows::zeros(memory.graph(), type.dtype, shape);
}

// Whether a symbol is newer than `last`, so that only a body knows it.
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

// Returns a if the condition is 1, and b if it is 0; nothing unless both are integral terms of
// sizes.
std::optional<Item> chosen(Memory& memory, const Dim& condition, const Item& a, const Item& b,
                           const Dim& last) {
  if (!is_numeric(a) || !is_numeric(b)) return std::nullopt;
  const auto x = scalar_of(a), y = scalar_of(b);
  if (!x || !y || x->kind != y->kind || !x->is_integral() || is_inner(x->top, last) ||
      is_inner(y->top, last))
    return std::nullopt;
  return item_of(memory, {x->kind, select(condition, x->top, y->top), 1, 0, {}});
}

// Adds the guards of one side of an `if` to the graph, for numbers of the side that are used
// without the node. Either the condition is 1, or a guard of the side must hold.
void lift_guards(const Graph& side, const Dim& condition, const Dim& last, Graph& graph) {
  for (const Guard& guard : side.guards()) {
    if (is_inner(guard.left, last) || is_inner(guard.right, last)) continue;
    constexpr std::string_view kOps[] = {"eq", "ne", "lt", "le"};
    const auto holds = relate(kOps[static_cast<size_t>(guard.relation)], Scalar::of(guard.left),
                              Scalar::of(guard.right));
    graph.guard(max(condition, holds->top), Relation::eq, 1, guard.reason);
  }
}

[[noreturn]] void refuse_choice(const Item& a, const Item& b) {
  throw Refusal{str_cat("data decides between ", describe(a), " and ", describe(b)), ""};
}

}  // namespace

TensorType Interpreter::BranchNode::Side::type(const Item& leaf) const {
  const auto found = types.find(identity_of(leaf));
  return found != types.end() ? found->second : number_type(leaf);
}

Interpreter::BranchNode::BranchNode(Interpreter& interpreter, const ScriptNode& node,
                                    const Item& item, const Scalar* sizes,
                                    const std::vector<Item>& held)
    : in_(interpreter),
      memory_(interpreter.memory_),
      node_(node),
      item_(item),
      sizes_(sizes),
      held_(held),
      failures_(interpreter.report_.rejected()),
      marks_(interpreter.identities_.marks()),
      last_(memory_.graph().fresh_symbol()) {}

bool Interpreter::BranchNode::build() {
  seen_.reserve(2);
  built_.reserve(2);
  seen_.push_back(run_side(0, nullptr, {}, Run::to_look));
  seen_.push_back(run_side(1, &seen_[0], seen_[0].region.captured, Run::to_look));
  if (!has_failed() && !are_alike()) {  // fit lists to a pattern of both sides
    const std::vector<Side> before = std::exchange(seen_, {});
    seen_.reserve(2);
    seen_.push_back(run_side(0, &before[1], {}, Run::to_look));
    seen_.push_back(run_side(1, &seen_[0], seen_[0].region.captured, Run::to_look));
  }
  fit_sides();
  if (has_failed()) return false;
  choose_outside();
  note_written();
  if (sizes_) {
    lift_guards(*seen_[0].region.graph, 1 - sizes_->top, last_, memory_.graph());
    lift_guards(*seen_[1].region.graph, sizes_->top, last_, memory_.graph());
  }
  built_.push_back(run_side(0, &seen_[1], seen_[1].region.captured, Run::to_build));
  built_.push_back(run_side(1, &seen_[0], built_[0].region.captured, Run::to_build));
  if (has_failed()) return false;
  Memory::Region &first = built_[0].region, &second = built_[1].region;
  for (size_t i = first.captured.size(); i < second.captured.size(); ++i) {
    const Value& value = second.captured[i];
    first.graph->input(str_cat("in_", static_cast<int64_t>(i)), value.dtype(), value.shape());
  }
  return true;
}

Interpreter::BranchNode::Side Interpreter::BranchNode::run_side(size_t index, const Side* other,
                                                                const std::vector<Value>& captured,
                                                                Run run) {
  Side side;
  in_.identities_.marks() = marks_;
  memory_.enter({});
  ChangedContainers holding(in_, held_);
  const Given given(in_.known_, sizes_, node_.inputs.at(0), index == 0);
  try {
    for (const Value& value : captured) memory_.capture(value);
    const ScriptBlock& block = node_.blocks[index];
    in_.run_block(block);
    side.results = in_.block_results(block);
    take_results(side, other);
    if (run == Run::to_build && !has_failed()) give_outputs(index, side);
    require_ok(memory_.graph().take_status());
  } catch (...) {
    memory_.leave();
    in_.identities_.marks() = marks_;
    throw;
  }
  side.region = memory_.leave();
  side.marks = in_.identities_.marks();
  return side;
}

// Collects the results of the side, and its copies of containers from outside, in the structure of
// the other side.
void Interpreter::BranchNode::take_results(Side& side, const Side* other) {
  for (const Item& container : held_) {
    side.results.push_back(snapshot(container));
    in_.identities_.made(side.results.back());
  }
  for (size_t i = 0; other != nullptr && i < side.results.size(); ++i)
    side.results[i] = defined_like(side.results[i], other->results[i]);
  for (size_t i = 0; !has_failed() && i < side.results.size(); ++i) {
    Item& result = side.results[i];
    in_.identities_.check_stale(result);
    auto& pattern = side.patterns.emplace_back();
    if (!holds_list(result)) continue;
    pattern = pattern_of(memory_, result);
    if (other == nullptr || !other->patterns.at(i) || same_structure(result, other->results[i]))
      continue;
    if (const auto both = joined(*pattern, *other->patterns[i], false)) {
      result = in_.fit(result, *both);
      pattern = pattern_of(memory_, result);
    }
  }
  for (const Item& result : side.results) collect(result, side.leaves);
  std::vector<TensorRef> tensors;
  for (const Item* leaf : side.leaves) {
    tensors.push_back(in_.tracks_memory_ ? tensor_of(*leaf) : nullptr);
    if (const auto* tensor = std::get_if<TensorRef>(&leaf->value);
        tensor != nullptr && !(*tensor)->is_poisoned())
      side.types.emplace(tensor->get(), memory_.type(*tensor));
    side.orders.push_back(memory_.order(tensor_of(*leaf)));
  }
  if (!has_failed()) side.leaving.emplace(memory_, tensors);
}

bool Interpreter::BranchNode::are_alike() const {
  for (size_t i = 0; i < seen_[0].results.size(); ++i)
    if (holds_list(seen_[0].results[i]) &&
        !same_structure(seen_[0].results[i], seen_[1].results[i]))
      return false;
  return true;
}

// Requires that both sides return the same containers.
void Interpreter::BranchNode::fit_sides() {
  Side& yes = seen_[0];
  const Side& no = seen_[1];
  yes.leaves.clear();
  for (size_t i = 0; i < yes.results.size(); ++i) {
    yes.results[i] = defined_like(yes.results[i], no.results[i]);
    collect(yes.results[i], yes.leaves);
  }
  for (size_t i = 0; !has_failed() && i < yes.results.size(); ++i)
    if (!same_structure(yes.results[i], no.results[i]))
      refuse_choice(yes.results[i], no.results[i]);
}

// Determines the leaves that need not be outputs of the node.
void Interpreter::BranchNode::choose_outside() {
  outside_.resize(seen_[0].leaves.size());
  for (size_t i = 0; i < seen_[0].leaves.size(); ++i) {
    const Item &a = *seen_[0].leaves[i], &b = *seen_[1].leaves[i];
    kept_.push_back(keeps(a, b) || (is_undefined(a) && (is_undefined(b) || is_constant(b))) ||
                    (is_undefined(b) && is_constant(a)));
    if (kept_.back()) {
      outside_[i] = is_undefined(a) ? b : a;
      continue;
    }
    if (auto number = sizes_ ? chosen(memory_, sizes_->top, a, b, last_) : std::nullopt) {
      outside_[i] = *std::move(number);
      kept_.back() = true;
      continue;
    }
    for (const Item* side : {&a, &b})
      if (!side->is_tensor() && !is_numeric(*side) && !is_undefined(*side)) refuse_choice(a, b);
    if (is_complex(a) != is_complex(b) && !is_undefined(a) && !is_undefined(b))
      throw Refusal{"data decides between a complex tensor and a real one", ""};
  }
}

// Collects the tensors from outside that either side writes, and those that become unknown.
void Interpreter::BranchNode::note_written() {
  for (const Side& side : seen_)
    invalidated_.insert(invalidated_.end(), side.region.invalidated.begin(),
                        side.region.invalidated.end());
  for (const Side& side : seen_)
    for (const Memory::Write& write : side.region.writes)
      if (std::find(touched_.begin(), touched_.end(), write.root) == touched_.end() &&
          std::find(invalidated_.begin(), invalidated_.end(), write.root) == invalidated_.end())
        touched_.push_back(write.root);
}

// Adds the outputs of a subgraph: leaves, tensors from outside, and tensors that the leaves of
// either side share memory with. The other side returns zeros for the latter.
void Interpreter::BranchNode::give_outputs(size_t index, const Side& present) {
  Graph& g = memory_.graph();
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (kept_[i]) continue;
    const Item& mine = *present.leaves[i];
    const Item &a = *seen_[0].leaves[i], &b = *seen_[1].leaves[i];
    Value value;
    if (is_undefined(mine)) {
      value = filler(memory_, is_undefined(a) ? seen_[1].type(b) : seen_[0].type(a));
    } else {
      value = number_value(memory_, mine);
      if (is_numeric(a) && is_numeric(b))
        value = cast(value, common_dtype(seen_[0].type(a).dtype, seen_[1].type(b).dtype));
    }
    g.output("", value);
  }
  for (const TensorRef& root : touched_) g.output("", memory_.read(root));
  for (size_t side = 0; side < 2; ++side) {
    const std::vector<TensorType>& types = seen_[side].leaving->types();
    if (side == index && present.leaving->told().size() != types.size())
      throw Refusal{"what a branch shares memory with is not found out", ""};
    for (size_t i = 0; i < types.size(); ++i)
      g.output("", side == index ? present.leaving->told()[i] : filler(memory_, types[i]));
  }
}

// Returns whether the node has any effect; a print does not count.
bool Interpreter::BranchNode::is_needed() {
  if (!built_[0].region.graph->outputs().empty()) return true;
  if (!has_assertions(*built_[0].region.graph) && !has_assertions(*built_[1].region.graph))
    return false;
  for (const Side& side : built_) {  // a node needs an output
    Graph& body = *side.region.graph;
    body.output("", body.scalar(int64_t{0}, boolean));
  }
  return true;
}

std::vector<Value> Interpreter::BranchNode::call_if(const Value& condition) {
  std::vector<Value> inputs = {condition};
  const std::vector<Value>& captured = built_[1].region.captured;
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  const Graph &yes = *built_[0].region.graph, &no = *built_[1].region.graph;
  for (size_t k = 0; k < std::min(yes.outputs().size(), no.outputs().size()); ++k) {
    const TensorType& a = yes.value_info(yes.outputs()[k].second).type;
    const TensorType& b = no.value_info(no.outputs()[k].second).type;
    if (a.dtype != b.dtype || a.rank() != b.rank())
      throw Refusal{str_cat("data decides between a tensor ", a, " and a tensor ", b,
                            ", but a result has one dtype and one number of dims"),
                    "give both branches the same, as with y.float() or y.unsqueeze(0)"};
  }
  std::vector<Value> outputs =
      memory_.graph().calls("if", inputs, {}, {built_[0].region.graph, built_[1].region.graph});
  require_ok(memory_.graph().take_status());
  name_sizes(outputs);
  return outputs;
}

// Replaces new symbols of the node's output sizes by terms of sizes from outside, where possible.
void Interpreter::BranchNode::name_sizes(std::vector<Value>& outputs) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    const auto shape_in = [&](const Memory::Region& region) -> const Shape& {
      return region.graph->value_info(region.graph->outputs()[k].second).type.shape;
    };
    const Shape &a = shape_in(built_[0].region), &b = shape_in(built_[1].region);
    Shape shape = outputs[k].shape();
    for (size_t d = 0; d < shape.size(); ++d)
      if ((sizes_ || a[d] == b[d]) && !is_inner(a[d], last_) && !is_inner(b[d], last_))
        shape[d] = a[d] == b[d] ? a[d] : select(sizes_->top, a[d], b[d]);
    if (shape != outputs[k].shape())
      outputs[k] = memory_.graph().call("reshape", {outputs[k]}, {{"shape", shape}});
  }
}

void Interpreter::BranchNode::add_node() {
  Identities::Merge merge;
  for (const std::vector<Side>* sides : {&seen_, &built_})
    for (const Side& side : *sides) in_.identities_.marks().add(side.marks);
  if (!is_needed()) {
    merge.leaves = outside_;
    give_back(std::move(merge));
    return memory_.invalidate(invalidated_);
  }
  const Value condition = memory_.read(in_.data_condition(item_));
  const std::vector<Value> outputs = call_if(condition);
  size_t next = static_cast<size_t>(std::count(kept_.begin(), kept_.end(), false));
  for (const TensorRef& root : touched_) memory_.write(root, outputs[next++]);
  memory_.invalidate(invalidated_);
  for (Side& side : built_) {
    const size_t told = side.leaving->told().size();
    side.leaving->arrive(std::span(outputs).subspan(next, told));
    next += told;
  }
  next = 0;
  for (size_t i = 0; i < kept_.size(); ++i)
    merge.leaves.push_back(kept_[i] ? outside_[i] : result_of(i, condition, outputs[next++]));
  for (Side& side : built_) side.leaving->share();
  for (size_t i = 0; i < kept_.size(); ++i)
    if (const TensorRef column = column_of(merge.leaves[i]); column && !kept_[i])
      for (const Side& side : built_)
        if (const TensorRef from = column_of(*side.leaves[i])) memory_.share_lists(from, column);
  give_back(std::move(merge));
  in_.kept_control_ = true;
}

// Returns a leaf that is an output of the node: a new tensor, or on either side one from outside.
Item Interpreter::BranchNode::result_of(size_t i, const Value& condition, const Value& value) {
  const Item& typed = *seen_[is_undefined(*seen_[0].leaves[i]) ? 1 : 0].leaves[i];
  if (is_numeric(typed))
    return Item(typed.is_tensor() ? memory_.make_like(std::get<TensorRef>(typed.value), value)
                                  : memory_.make_number(value));
  TensorRef own, is_on[2];
  std::optional<MemoryOrder> order;
  for (size_t side = 0; side < 2; ++side) {
    is_on[side] = built_[side].leaving->outside(i);
    if (is_on[side] || is_undefined(*built_[side].leaves[i])) continue;
    if (!own) own = memory_.make_like(std::get<TensorRef>(typed.value), value);
    order = order ? joined(*order, built_[side].orders[i]) : built_[side].orders[i];
    built_[side].leaving->became(i, own);
    is_on[side] = own;
  }
  if (own) memory_.set_order(own, *order);
  const bool is_one = is_on[0] == is_on[1] || (own && (!is_on[0] || !is_on[1]));
  return Item(is_one ? (is_on[0] ? is_on[0] : is_on[1])
                     : memory_.make_choice(condition, is_on[0], is_on[1], value));
}

// Sets the script's values after the `if`, and the containers that it changes.
void Interpreter::BranchNode::give_back(Identities::Merge merge) {
  const size_t count = node_.outputs.size();
  for (size_t i = 0; i < seen_[0].results.size(); ++i) {
    const Item result = in_.identities_.merged(seen_[0].results[i], seen_[1].results[i], merge);
    for (const Side& side : seen_)  // lists of which one side has a copy
      if (side.marks.stored.contains(identity_of(side.results[i]))) in_.identities_.store(result);
    if (i < count)
      in_.set(node_.outputs[i], result);
    else
      restore(held_[i - count], result);
  }
}

}  // namespace hg::convert
