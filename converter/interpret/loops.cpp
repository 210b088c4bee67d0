// SPDX-License-Identifier: Apache-2.0
// Loops: unrolled where constants decide, kept as graph ops where data or symbolic sizes do.
#include <algorithm>
#include <deque>

#include "converter/interpret/attempt.h"
#include "converter/interpret/carried.h"
#include "converter/interpret/held.h"

namespace hg::convert {
namespace {

constexpr int64_t kMostTrips = 100000;  // of an unrolled loop
constexpr int64_t kMostUnrolled = 64;   // trips that sizes count, of a loop that is not kept
constexpr int kMostPasses = 16;         // over the body of a loop, to find out what it changes

// Thrown where the body gives what is undefined before the loop its containers; it starts over.
struct Shaped {};

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

void Interpreter::while_on_data(const ScriptNode& node, const Item& trips, Dim done, Item condition,
                                std::vector<Item> held) {
  const ScriptBlock& block = node.blocks.at(0);
  const size_t carried = node.outputs.size();
  const size_t failures = result_.unsupported.size();
  const bool counted = !(scalar_of(trips) && scalar_of(trips)->is_constant() &&
                         scalar_of(trips)->as_double() > 1e15);  // `while` has no trip count
  std::vector<Item> start;
  for (size_t i = 0; i < carried; ++i) start.push_back(get(block.inputs[i + 1]));
  for (const Item& container : held) start.push_back(snapshot(container));
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
  std::set<std::pair<const void*, size_t>> growing;  // leaves or tensors from outside, and a dim
  std::vector<TensorRef> touched, doubted;
  std::vector<TensorRef> before;
  for (const Item* leaf : leaves) before.push_back(tracks_memory_ ? tensor_of(*leaf) : nullptr);
  Carried memory_of_leaves(memory_, before);
  std::vector<bool> row_major;  // leaves that are so after every round
  for (const TensorRef& leaf : before)
    row_major.push_back(leaf && memory_.is_surely_row_major(leaf));
  // Notes the dims that a round changes; whether there are new ones.
  const auto grows = [&](const void* what, const Shape& before, const Shape& after) {
    bool news = false;
    for (size_t d = 0; d < after.size() && after.size() == before.size(); ++d)
      if (!(after[d] == before[d])) news |= growing.emplace(what, d).second;
    return news;
  };
  // What the leaves are that a round leaves behind, for the lists that hold them.
  std::vector<TensorRef> left(leaves.size());
  // What the body alone gives a value, as an early return does, starts as zeros of its type.
  std::deque<Item> seeds;
  std::vector<bool> numeric(leaves.size(), false);  // of those
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
    for (const TensorRef& root : touched) {
      for (const auto& [tensor, dim] : growing)
        if (tensor == root.get()) sizes.emplace(initial.size(), dim);
      initial.push_back(memory_.read(root));
    }
    const size_t first_number = initial.size();
    for (const Value& number : memory_of_leaves.numbers(changes)) initial.push_back(number);
    const std::vector<bool> is_taken = changes;
    const std::vector<Value> inside = memory_.enter(initial, sizes);
    Held holding(*this, held);
    size_t next = 1;
    std::vector<Item> items;
    std::vector<TensorRef> own(leaves.size());
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!changes[i]) {
        items.push_back(*leaves[i]);
      } else if (is_numeric(*leaves[i])) {
        items.emplace_back(memory_.make_number(inside[next++]));
      } else {
        own[i] = memory_.make_like(std::get<TensorRef>(leaves[i]->value), inside[next++]);
        if (row_major[i]) memory_.set_row_major(own[i]);
        items.emplace_back(own[i]);
      }
    }
    for (const TensorRef& root : touched) memory_.set_root(root, inside[next++]);
    memory_.doubt(doubted);
    const std::vector<TensorRef> placed = memory_of_leaves.placed(
        own, {inside.begin() + static_cast<std::ptrdiff_t>(first_number), inside.end()});
    for (size_t i = 0; i < leaves.size(); ++i)
      if (own[i]) items[i] = Item(placed[i]);
    for (size_t i = 0; i < leaves.size(); ++i)
      if (const TensorRef item = tensor_of(items[i]); item && changes[i]) {
        if (const TensorRef before = tensor_of(*leaves[i])) memory_.share_lists(before, item);
        if (left[i]) memory_.share_lists(left[i], item);
      }
    next = 0;
    std::vector<std::pair<const void*, std::shared_ptr<List>>> copies;  // of lists
    for (size_t i = 0; i < carried; ++i) {
      set(block.inputs[i + 1], rebuild(start[i], items, next));
      const auto* list = std::get_if<std::shared_ptr<List>>(&start[i].value);
      if (list != nullptr)
        copies.emplace_back(std::get<std::shared_ptr<List>>(get(block.inputs[i + 1]).value).get(),
                            *list);
    }
    for (size_t i = 0; i < held.size(); ++i)
      restore(held[i], rebuild(start[carried + i], items, next));
    set(block.inputs[0], Item(memory_.make_number(inside[0])));
    bool settled = true;
    std::vector<std::pair<size_t, TensorType>> fresh;  // leaves that get their first value
    try {
      run_block(block);
      last = block_results(block);
      for (const Item& container : held) last.push_back(snapshot(container));
      if (result_.unsupported.size() > failures) {
        memory_.leave();
        return poison_outputs(node);
      }
      std::vector<const Item*> after;
      bool shaped = true;
      for (size_t i = 0; i < carried; ++i) {
        last[i + 1] = defined_like(last[i + 1], start[i]);
        const Item defined = defined_like(start[i], last[i + 1]);
        if (same_structure(start[i], defined)) continue;
        start[i] = defined;
        shaped = false;
      }
      if (!shaped) throw Shaped();
      for (size_t i = 0; i < start.size(); ++i) {
        for (const Item& container : held)
          if (i < carried && holds(last[i + 1], identity_of(container)))
            throw Refusal{"a loop of unknown length carries a list or dict that it changes",
                          "make a new one in each round"};
        if (!same_structure(start[i], last[i + 1]))
          throw Refusal{text("a loop whose end data decides changes ", describe(start[i]), " to ",
                             describe(last[i + 1])),
                        ""};
        collect(last[i + 1], after);
      }
      for (size_t i = 0; i < leaves.size(); ++i) {
        if (is_undefined(items[i]) && (after[i]->is_tensor() || is_numeric(*after[i]))) {
          if (is_complex(*after[i]))
            throw Refusal{"a loop whose end data decides is left with a complex result", ""};
          numeric[i] = is_numeric(*after[i]);
          fresh.emplace_back(i, after[i]->is_tensor()
                                    ? memory_.type(std::get<TensorRef>(after[i]->value))
                                    : TensorType{number_value(memory_, *after[i]).dtype(), {}});
          continue;
        }
        if (is_undefined(items[i]) && is_constant(*after[i])) {
          seeds.push_back(*after[i]);
          leaves[i] = &seeds.back();
          settled = false;
          continue;
        }
        const bool same = keeps(items[i], *after[i]);
        if (changes[i] && same) {
          changes[i] = false;
          settled = false;
        } else if (is_complex(items[i]) != is_complex(*after[i])) {
          throw Refusal{"a loop whose end data decides turns a real tensor into a complex one", ""};
        } else if (!changes[i] && !same) {
          throw Refusal{text("a loop whose end data decides changes ", describe(items[i])), ""};
        }
      }
      for (size_t i = 0; i < leaves.size(); ++i)
        if (const TensorRef item = tensor_of(items[i]), end = tensor_of(*after[i]);
            item && end && changes[i]) {
          left[i] = end;
          settled &= !memory_.share_lists(end, item);
        }
      Graph& g = memory_.graph();
      const Value one = g.scalar(int64_t{1}, i64);
      const Value advanced = g.call("add", {inside[0], one});
      g.output("", and_more(memory_.read(data_condition(last[0])), advanced));
      g.output("", advanced);
      size_t k = 1;
      for (size_t i = 0; i < leaves.size(); ++i) {
        if (!is_taken[i]) continue;
        const Value& taken = inside[k++];
        if (!changes[i]) continue;
        const Value given = number_value(memory_, *after[i]);
        if (!is_numeric(*leaves[i]) && given.dtype() != taken.dtype())
          throw Refusal{text("a loop whose end data decides changes a tensor of ", taken.dtype(),
                             " to one of ", given.dtype()),
                        "cast it to one dtype before the loop and in it"};
        const Value value = cast(given, taken.dtype());
        g.output("", value);
        settled &= !grows(leaves[i], taken.shape(), value.shape());
      }
      for (const TensorRef& root : touched) {
        const Value& taken = inside[k++];
        if (!memory_.is_known(root)) continue;
        const Value value = memory_.read(root);
        g.output("", value);
        settled &= !grows(root.get(), taken.shape(), value.shape());
      }
      std::vector<TensorRef> ends(leaves.size());
      for (size_t i = 0; i < leaves.size(); ++i)
        if (tracks_memory_ && changes[i]) ends[i] = tensor_of(*after[i]);
      for (size_t i = 0; i < leaves.size(); ++i)
        if (row_major[i] && ends[i] && !memory_.is_surely_row_major(ends[i]))
          row_major[i] = settled = false;
      for (const Value& number : memory_of_leaves.next(ends, settled)) g.output("", number);
      if (Status status = g.take_status(); !status.ok())
        throw Refusal{std::string(status.message()), ""};
    } catch (const Changing& found) {
      memory_.leave();
      holding.release();
      check_change(found.container);
      const void* const container = identity_of(found.container);
      for (const Item& item : start)
        if (holds(item, container))
          throw Refusal{"a list or dict that a loop of unknown length carries is changed in place",
                        "make a new one in each round"};
      for (const Item& other : held)
        if (holds(found.container, identity_of(other)))
          throw Refusal{"a loop of unknown length changes a list or dict and another inside of it",
                        ""};
      held.push_back(found.container);
      for (size_t i = 0; i < carried; ++i) set(block.inputs[i + 1], start[i]);
      return while_on_data(node, trips, done, std::move(condition), std::move(held));
    } catch (const Shaped&) {
      memory_.leave();
      holding.release();
      for (size_t i = 0; i < carried; ++i) set(block.inputs[i + 1], start[i]);
      return while_on_data(node, trips, done, std::move(condition), std::move(held));
    } catch (const Growing& found) {
      memory_.leave();
      holding.release();
      if (depth_of(found.list.get()) < memory_.depth()) {
        if (may_grow(found.list.get())) throw;
        check_change(Item(found.list));
      }
      // Once more from the start, with a list that is a tensor.
      Growing growing_list = found;
      for (const auto& [copy, list] : copies)
        if (copy == found.list.get()) growing_list.list = list;
      start_growing(memory_, growing_list);
      for (size_t i = 0; i < carried; ++i) set(block.inputs[i + 1], start[i]);
      return while_on_data(node, trips, done, std::move(condition), std::move(held));
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
    for (const TensorRef& root : region.doubted)
      if (std::find(doubted.begin(), doubted.end(), root) == doubted.end()) {
        doubted.push_back(root);
        std::erase(touched, root);
        settled = false;
      }
    for (const auto& [i, type] : fresh) {
      Graph& g = memory_.graph();
      const Value zero =
          cast(g.call("expand", {g.scalar(int64_t{0}, i64)}, {{"shape", type.shape}}), type.dtype);
      seeds.push_back(numeric[i] ? Item(memory_.make_number(zero)) : Item(memory_.make(zero)));
      leaves[i] = &seeds.back();
      changes[i] = true;
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
  // What grows by so much in each round of a loop that sizes count has a size that is known.
  const auto limit = scalar_of(trips);
  const bool sure = decided(last[0]).value_or(false) && decided(condition).value_or(false) &&
                    limit && limit->is_integral();
  const auto with_length = [&](const Value& before, const Value& after, size_t k) {
    Shape shape = after.shape();
    const Graph& body = *region.graph;
    const auto type_of = [&](ValueId id) -> const TensorType& { return body.value_info(id).type; };
    for (size_t d = 0; sure && d < shape.size(); ++d) {
      if (shape[d] == before.dim(static_cast<int>(d))) continue;
      const Dim step =
          type_of(body.outputs()[k + 1].second).shape[d] - type_of(body.inputs()[k]).shape[d];
      if (step.is_constant())
        shape[d] = before.dim(static_cast<int>(d)) + step * max(limit->top - done, 0);
    }
    if (shape == after.shape()) return after;
    return memory_.graph().call("reshape", {after}, {{"shape", shape}});
  };
  size_t next = 1;
  std::vector<Item> results;
  std::vector<TensorRef> own(leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!changes[i]) {
      results.push_back(*leaves[i]);
      continue;
    }
    const Value value = with_length(initial[next], outputs[next], next);
    ++next;
    if (is_numeric(*leaves[i])) {
      results.emplace_back(memory_.make_number(value));
      continue;
    }
    own[i] = memory_.make_like(std::get<TensorRef>(leaves[i]->value), value);
    if (row_major[i]) memory_.set_row_major(own[i]);
    results.emplace_back(own[i]);
    if (left[i]) memory_.share_lists(left[i], own[i]);
  }
  for (size_t i = 0; i < touched.size(); ++i, ++next)
    memory_.write(touched[i], with_length(initial[next], outputs[next], next));
  memory_.doubt(doubted);
  const std::vector<TensorRef> placed = memory_of_leaves.placed(
      own, {outputs.begin() + static_cast<std::ptrdiff_t>(next), outputs.end()});
  for (size_t i = 0; i < leaves.size(); ++i)
    if (own[i]) results[i] = Item(placed[i]);
  // A container that no round makes anew is the one from before the loop.
  Merge merge{results, 0, {}};
  for (size_t i = 0; i < carried; ++i) {
    const bool is_same = identity_of(last[i + 1]) == identity_of(get(block.inputs[i + 1]));
    set(node.outputs[i], merged(start[i], is_same ? start[i] : last[i + 1], merge));
  }
  next = merge.next;
  for (size_t i = 0; i < held.size(); ++i)
    restore(held[i], rebuild(start[carried + i], results, next));
  kept_control_ = true;
}

}  // namespace hg::convert
