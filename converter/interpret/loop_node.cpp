// SPDX-License-Identifier: Apache-2.0
// Interprets the body of a loop until it is stable, and builds the graph node from the last pass.
#include "converter/interpret/loop_node.h"

#include <algorithm>
#include <utility>

namespace hg::convert {
namespace {

constexpr int kMostPasses = 16;  // maximum, to find what a body changes

std::vector<TensorRef> tensors_of(const std::vector<const Item*>& leaves, bool tracked) {
  std::vector<TensorRef> tensors;
  for (const Item* leaf : leaves) tensors.push_back(tracked ? tensor_of(*leaf) : nullptr);
  return tensors;
}

}  // namespace

Interpreter::LoopNode::LoopNode(Interpreter& interpreter, const ScriptNode& node, const Item& trips,
                                const Dim& done, const Item& condition,
                                const std::vector<Item>& held)
    : in_(interpreter),
      memory_(interpreter.memory_),
      node_(node),
      block_(node.blocks.at(0)),
      trips_(trips),
      done_(done),
      condition_(condition),
      held_(held),
      carried_(node.outputs.size()),
      failures_(interpreter.report_.rejected()),
      marks_(interpreter.identities_.marks()),
      start_([&] {
        std::vector<Item> start;
        for (size_t i = 0; i < node.outputs.size(); ++i)
          start.push_back(in_.get(block_.inputs[i + 1]));
        for (const Item& container : held) start.push_back(snapshot(container));
        return start;
      }()),
      leaves_([&] {
        std::vector<const Item*> leaves;
        for (const Item& item : start_) collect(item, leaves);
        return leaves;
      }()),
      changes_(leaves_.size(), true),
      left_(leaves_.size()),
      numeric_(leaves_.size(), false),
      may_be_negative_(leaves_.size(), false),
      places_(memory_, tensors_of(leaves_, interpreter.tracks_memory_)),
      rewritten_(start_.size(), false) {
  const auto limit = scalar_of(trips);  // `while` has no trip count
  counted_ = !(limit && limit->is_constant() && limit->as_double() > 1e15);
  counter_ = memory_.materialize({i64, 0, {Scalar::of(done)}});
  first_ = go_on(memory_.read(in_.data_condition(condition)), counter_);
  for (const Item& item : start_) in_.identities_.check_stale(item);
  for (const Item* leaf : leaves_) orders_.push_back(memory_.order(tensor_of(*leaf)));
}

// Returns the script's condition, and whether iterations are left.
Value Interpreter::LoopNode::go_on(Value condition, Value counter) {
  if (!counted_) return condition;
  Graph& g = memory_.graph();
  const Value limit = cast(number_value(memory_, trips_), i64);
  return g.call("logical_and", {condition, g.call("lt", {counter, limit})});
}

void Interpreter::LoopNode::start_over() {
  for (size_t i = 0; i < carried_; ++i) in_.set(block_.inputs[i + 1], start_[i]);
}

Item Interpreter::LoopNode::original(const Item& container) const {
  for (const auto& [copy, known] : copies_)
    if (copy == identity_of(container)) return known;
  for (size_t i = 0; i < held_.size(); ++i)
    if (identity_of(start_[carried_ + i]) == identity_of(container)) return held_[i];
  return container;
}

bool Interpreter::LoopNode::carries(const void* container) const {
  return std::any_of(start_.begin(), start_.end(),
                     [&](const Item& item) { return holds(item, container); });
}

Interpreter::LoopNode::Outcome Interpreter::LoopNode::find_changes() {
  for (int pass = 0; pass < kMostPasses; ++pass) {
    Pass present;
    const Outcome outcome = run_pass(present);
    if (outcome != Outcome::found || present.settled) return outcome;
  }
  throw Refusal{"what a loop whose end data decides changes is not found out", ""};
}

Interpreter::LoopNode::Outcome Interpreter::LoopNode::run_pass(Pass& pass) {
  in_.identities_.marks() = marks_;
  enter(pass);
  {
    ChangedContainers holding(in_, held_);
    Outcome outcome;
    try {
      outcome = interpret(pass);
    } catch (...) {
      memory_.leave();
      in_.identities_.marks() = marks_;
      throw;
    }
    region_ = memory_.leave();
    if (outcome == Outcome::shaped || outcome == Outcome::changes_types)
      in_.identities_.marks() = marks_;
    if (outcome != Outcome::found) return outcome;
  }
  note_region(pass);
  seed(pass);
  return Outcome::found;
}

Interpreter::LoopNode::Outcome Interpreter::LoopNode::interpret(Pass& pass) {
  set_carried(pass);
  if (!run_body()) return Outcome::unsupported;
  for (const auto step :
       {&LoopNode::check_structure, &LoopNode::note_changes, &LoopNode::give_outputs})
    if (const Outcome outcome = (this->*step)(pass); outcome != Outcome::found) return outcome;
  require_ok(memory_.graph().take_status());
  return Outcome::found;
}

Interpreter::LoopNode::Outcome Interpreter::LoopNode::changes_types(std::string reason,
                                                                    std::string suggestion) {
  refusal_ = {"a loop whose end data decides " + std::move(reason), std::move(suggestion)};
  return Outcome::changes_types;
}

// Creates the inputs of the body: the counter, the leaves and tensors from outside that change, and
// numbers that state which tensors the leaves are.
void Interpreter::LoopNode::enter(Pass& pass) {
  initial_ = {counter_};
  std::set<std::pair<size_t, size_t>> sizes;  // changing sizes, by position in `initial_`
  const auto note_sizes = [&](const void* what) {
    for (const auto& [grown, dim] : growing_)
      if (grown == what) sizes.emplace(initial_.size(), dim);
  };
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!changes_[i]) continue;
    if (!leaves_[i]->is_tensor() && !is_numeric(*leaves_[i])) {
      changes_[i] = false;
      continue;
    }
    note_sizes(leaves_[i]);
    initial_.push_back(number_value(memory_, *leaves_[i]));
    note_sign(i, initial_.back());
  }
  for (const TensorRef& root : touched_) {
    note_sizes(root.get());
    initial_.push_back(memory_.read(root));
  }
  pass.first_place = initial_.size();
  for (const Value& place : places_.numbers(changes_)) initial_.push_back(place);
  pass.takes = changes_;
  pass.inside = memory_.enter(initial_, sizes);
}

// Updates whether a carried integer may be negative before an iteration. Returns whether this is
// new.
bool Interpreter::LoopNode::note_sign(size_t i, const Value& value) {
  const bool is_integer = value.dtype() == i64 && value.rank() == 0;
  if (may_be_negative_[i] || (is_integer && memory_.is_nonnegative(value))) return false;
  return may_be_negative_[i] = true;
}

// Sets the script's values in the body. Leaves that are inputs of the body become new tensors and
// numbers.
void Interpreter::LoopNode::set_carried(Pass& pass) {
  size_t next = 1;
  memory_.set_nonnegative(pass.inside[0]);
  pass.own.resize(leaves_.size());
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (changes_[i] && !may_be_negative_[i]) memory_.set_nonnegative(pass.inside[next]);
    if (!changes_[i]) {
      pass.items.push_back(*leaves_[i]);
    } else if (is_numeric(*leaves_[i])) {
      const auto* number = std::get_if<TensorRef>(&leaves_[i]->value);
      const Value value = pass.inside[next++];
      pass.items.emplace_back(number ? memory_.make_like(*number, value)
                                     : memory_.make_number(value));
    } else {
      pass.own[i] = memory_.make_like(std::get<TensorRef>(leaves_[i]->value), pass.inside[next++]);
      memory_.set_order(pass.own[i], orders_[i]);
      pass.items.emplace_back(pass.own[i]);
    }
  }
  for (const TensorRef& root : touched_) memory_.set_root(root, pass.inside[next++]);
  memory_.invalidate(invalidated_);
  const auto first_place = pass.inside.begin() + static_cast<std::ptrdiff_t>(pass.first_place);
  const std::vector<TensorRef> placed = places_.placed(pass.own, {first_place, pass.inside.end()});
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (pass.own[i]) pass.items[i] = Item(placed[i]);
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (const TensorRef item = tensor_of(pass.items[i]); item && changes_[i]) {
      if (const TensorRef before = tensor_of(*leaves_[i])) memory_.share_lists(before, item);
      if (left_[i]) memory_.share_lists(left_[i], item);
    }
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (const TensorRef column = column_of(pass.items[i]); column && changes_[i]) {
      memory_.share_lists(column_of(*leaves_[i]), column);
      if (left_[i]) memory_.share_lists(left_[i], column);
    }
  next = 0;
  copies_.clear();
  for (size_t i = 0; i < carried_; ++i)
    if (rewritten_[i]) leave_to_loop(start_[i]);
  for (size_t i = 0; i < carried_; ++i) {
    in_.set(block_.inputs[i + 1], rebuild(start_[i], pass.items, next));
    pair_lists(in_.get(block_.inputs[i + 1]), start_[i]);
  }
  for (size_t i = 0; i < held_.size(); ++i)
    restore(held_[i], rebuild(start_[carried_ + i], pass.items, next));
  in_.set(block_.inputs[0], Item(memory_.make_number(pass.inside[0])));
}

// Runs the body; returns false if an op is not supported.
bool Interpreter::LoopNode::run_body() {
  in_.run_block(block_);
  last_ = in_.block_results(block_);
  for (const Item& container : held_) last_.push_back(snapshot(container));
  return in_.report_.rejected() == failures_;
}

// Requires that each iteration returns the containers that it receives.
Interpreter::LoopNode::Outcome Interpreter::LoopNode::check_structure(Pass& pass) {
  bool is_shaped = true;
  for (size_t i = 0; i < carried_; ++i) {
    last_[i + 1] = defined_like(last_[i + 1], start_[i]);
    const Item defined = defined_like(start_[i], last_[i + 1]);
    if (same_structure(start_[i], defined)) continue;
    start_[i] = defined;
    is_shaped = false;
  }
  if (!is_shaped) return Outcome::shaped;
  for (size_t i = 0; i < start_.size(); ++i)
    if (holds_list(start_[i]) && !same_structure(start_[i], last_[i + 1]))
      if (const auto both =
              joined(pattern_of(memory_, start_[i]), pattern_of(memory_, last_[i + 1]), false))
        last_[i + 1] = fit_lists(start_[i], last_[i + 1], *both);
  for (size_t i = 0; i < start_.size(); ++i) {
    for (const Item& container : held_)
      if (i < carried_ && holds(last_[i + 1], identity_of(container)))
        throw Refusal{"a loop of unknown length carries a list or dict that it changes",
                      "make a new one in each round"};
    if (!same_structure(start_[i], last_[i + 1]))
      return changes_types(str_cat("changes ", describe(start_[i]), " to ", describe(last_[i + 1])),
                           "give it the same structure before the loop and in every round");
    collect(last_[i + 1], pass.after);
  }
  return Outcome::found;
}

// Finds leaves that an iteration does not change, and leaves that get their first value in it.
Interpreter::LoopNode::Outcome Interpreter::LoopNode::note_changes(Pass& pass) {
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Item &before = pass.items[i], &after = *pass.after[i];
    if (is_undefined(before) && (after.is_tensor() || is_numeric(after))) {
      if (is_complex(after))
        throw Refusal{"a loop whose end data decides is left with a complex result", ""};
      numeric_[i] = is_numeric(after);
      pass.fresh.emplace_back(i, after.is_tensor()
                                     ? memory_.type(std::get<TensorRef>(after.value))
                                     : TensorType{number_value(memory_, after).dtype(), {}});
      continue;
    }
    if (is_undefined(before) && is_constant(after)) {
      seeds_.push_back(after);
      leaves_[i] = &seeds_.back();
      pass.settled = false;
      continue;
    }
    const bool same = keeps(before, after);
    if (changes_[i] && same) {
      changes_[i] = false;
      pass.settled = false;
    } else if (is_complex(before) != is_complex(after)) {
      return changes_types("turns a real tensor into a complex one",
                           "make it complex before the loop");
    } else if (!changes_[i] && !same) {
      return changes_types(str_cat("changes ", describe(before), " to ", describe(after)),
                           "give it a tensor of the same dtype and rank before the loop");
    }
  }
  note_members(pass);
  note_changed_lists(pass);
  return Outcome::found;
}

// Records the dims that an iteration changes; returns whether any are new.
bool Interpreter::LoopNode::grows(const void* what, const Shape& before, const Shape& after) {
  bool news = false;
  for (size_t d = 0; d < after.size() && after.size() == before.size(); ++d)
    if (!(after[d] == before[d])) news |= growing_.emplace(what, d).second;
  return news;
}

// Adds the outputs: whether another iteration follows, and its inputs.
Interpreter::LoopNode::Outcome Interpreter::LoopNode::give_outputs(Pass& pass) {
  Graph& g = memory_.graph();
  const Value one = g.scalar(int64_t{1}, i64);
  const Value advanced = g.call("add", {pass.inside[0], one});
  g.output("", go_on(memory_.read(in_.data_condition(last_[0])), advanced));
  g.output("", advanced);
  size_t k = 1;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!pass.takes[i]) continue;
    const Value& taken = pass.inside[k++];
    if (!changes_[i]) continue;
    const Value given = number_value(memory_, *pass.after[i]);
    if (!is_numeric(*leaves_[i]) && given.dtype() != taken.dtype())
      return changes_types(
          str_cat("changes a tensor of ", taken.dtype(), " to one of ", given.dtype()),
          "cast it to one dtype before the loop and in it");
    if (given.rank() != taken.rank())
      return changes_types(
          str_cat("changes a tensor of shape ", taken.shape(), " to one of shape ", given.shape()),
          "give it the same number of dims before the loop and in it");
    const Value value = cast(given, taken.dtype());
    g.output("", value);
    pass.settled &= !grows(leaves_[i], taken.shape(), value.shape());
    pass.settled &= !note_sign(i, value);
  }
  for (const TensorRef& root : touched_) {
    const Value& taken = pass.inside[k++];
    if (!memory_.is_known(root)) continue;
    const Value value = memory_.read(root);
    g.output("", value);
    pass.settled &= !grows(root.get(), taken.shape(), value.shape());
  }
  std::vector<TensorRef> ends(leaves_.size());
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (in_.tracks_memory_ && changes_[i]) ends[i] = tensor_of(*pass.after[i]);
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!changes_[i]) continue;
    const MemoryOrder end = memory_.order(tensor_of(*pass.after[i]));
    const MemoryOrder before = std::exchange(orders_[i], joined(orders_[i], end));
    pass.settled &= before == orders_[i];
  }
  for (const Value& place : places_.next(ends, pass.settled)) g.output("", place);
  return Outcome::found;
}

// Records tensors from outside that the body writes or may write.
void Interpreter::LoopNode::note_region(Pass& pass) {
  for (const Memory::Write& write : region_.writes)
    if (std::find(touched_.begin(), touched_.end(), write.root) == touched_.end()) {
      touched_.push_back(write.root);
      pass.settled = false;
    }
  for (const TensorRef& root : region_.invalidated)
    if (std::find(invalidated_.begin(), invalidated_.end(), root) == invalidated_.end()) {
      invalidated_.push_back(root);
      std::erase(touched_, root);
      pass.settled = false;
    }
}

// A value that only the body sets, as for an early return, starts as zeros of its type.
void Interpreter::LoopNode::seed(Pass& pass) {
  for (const auto& [i, type] : pass.fresh) {
    Graph& g = memory_.graph();
    const Value zero =
        cast(g.call("expand", {g.scalar(int64_t{0}, i64)}, {{"shape", type.shape}}), type.dtype);
    seeds_.push_back(numeric_[i] ? Item(memory_.make_number(zero)) : Item(memory_.make(zero)));
    leaves_[i] = &seeds_.back();
    changes_[i] = true;
    pass.settled = false;
  }
}

void Interpreter::LoopNode::add_node() {
  std::vector<Value> inputs = {first_};
  inputs.insert(inputs.end(), region_.captured.begin(), region_.captured.end());
  const std::vector<Value> outputs = memory_.graph().calls("while", inputs, {}, {region_.graph});
  require_ok(memory_.graph().take_status(),
             "what grows in a loop that data ends can be written into a tensor of the final "
             "size, made before the loop");
  size_t next = 1;
  std::vector<Item> results;
  std::vector<TensorRef> own(leaves_.size());
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!changes_[i]) {
      results.push_back(*leaves_[i]);
      continue;
    }
    const Value value = with_length(outputs[next], next);
    ++next;
    if (!may_be_negative_[i]) memory_.set_nonnegative(value);
    if (const auto* number = std::get_if<TensorRef>(&leaves_[i]->value); is_numeric(*leaves_[i])) {
      results.emplace_back(number ? memory_.make_like(*number, value) : memory_.make_number(value));
      continue;
    }
    own[i] = memory_.make_like(std::get<TensorRef>(leaves_[i]->value), value);
    memory_.set_order(own[i], orders_[i]);
    results.emplace_back(own[i]);
    if (left_[i]) memory_.share_lists(left_[i], own[i]);
  }
  for (size_t i = 0; i < touched_.size(); ++i, ++next)
    memory_.write(touched_[i], with_length(outputs[next], next));
  memory_.invalidate(invalidated_);
  const std::vector<TensorRef> placed =
      places_.placed(own, {outputs.begin() + static_cast<std::ptrdiff_t>(next), outputs.end()});
  for (size_t i = 0; i < leaves_.size(); ++i)
    if (own[i]) results[i] = Item(placed[i]);
  give_back(results);
}

// If sizes determine the number of iterations, a tensor that grows by a constant size in each of
// them has a known size.
Value Interpreter::LoopNode::with_length(const Value& after, size_t k) const {
  const auto limit = scalar_of(trips_);
  const bool sure = decided(last_[0]).value_or(false) && decided(condition_).value_or(false) &&
                    limit && limit->is_integral();
  const Value& before = initial_[k];
  Shape shape = after.shape();
  const Graph& body = *region_.graph;
  const auto type_of = [&](ValueId id) -> const TensorType& { return body.value_info(id).type; };
  for (size_t d = 0; sure && d < shape.size(); ++d) {
    if (shape[d] == before.dim(static_cast<int>(d))) continue;
    const Dim step =
        type_of(body.outputs()[k + 1].second).shape[d] - type_of(body.inputs()[k]).shape[d];
    if (step.is_constant())
      shape[d] = before.dim(static_cast<int>(d)) + step * max(limit->top - done_, 0);
  }
  if (shape == after.shape()) return after;
  return memory_.graph().call("reshape", {after}, {{"shape", shape}});
}

// Sets the script's values after the loop, and the containers that it changes.
void Interpreter::LoopNode::give_back(const std::vector<Item>& results) {
  Identities::Merge merge{results, 0, {}};
  for (size_t i = 0; i < carried_; ++i) {
    // A container that no iteration replaces is the one from before the loop.
    const bool is_same = identity_of(last_[i + 1]) == identity_of(in_.get(block_.inputs[i + 1]));
    in_.set(node_.outputs[i],
            in_.identities_.merged(start_[i], is_same ? start_[i] : last_[i + 1], merge));
  }
  size_t next = merge.next;
  for (size_t i = 0; i < held_.size(); ++i)
    restore(held_[i], rebuild(start_[carried_ + i], results, next));
  in_.kept_control_ = true;
}

}  // namespace hg::convert
