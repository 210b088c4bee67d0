// SPDX-License-Identifier: Apache-2.0
// Handles results whose rank depends on a size: ops such as squeeze, branches with results of
// different ranks, and loops whose first iteration changes types. The nodes from there on, up to
// the point where both cases have the same rank again, become an `if`. If there is no such point
// and sizes decide, one case is taken with a guard.
#include <algorithm>
#include <map>
#include <set>

#include "converter/containers/columns.h"
#include "converter/interpret/attempt.h"
#include "converter/memory/item_tree.h"
#include "lib/graph/access.h"
#include "lib/graph/condition.h"

namespace hg::convert {
namespace {

constexpr size_t kMostNodes = 64;  // searched for a common rank

void collect_uses(const ScriptBlock& block, std::set<ScriptId>& used) {
  for (const ScriptNode& node : block.nodes) {
    used.insert(node.inputs.begin(), node.inputs.end());
    for (const ScriptBlock& inner : node.blocks) collect_uses(inner, used);
  }
  used.insert(block.outputs.begin(), block.outputs.end());
}

// Returns the values of the nodes [first, end) that later nodes use.
std::vector<ScriptId> live_after(const ScriptBlock& block, size_t first, size_t end) {
  std::set<ScriptId> used;
  for (size_t i = end; i < block.nodes.size(); ++i)
    collect_uses(ScriptBlock{{}, {block.nodes[i]}, {}}, used);
  used.insert(block.outputs.begin(), block.outputs.end());
  std::vector<ScriptId> live;
  for (size_t i = first; i < end; ++i)
    for (const ScriptId id : block.nodes[i].outputs)
      if (used.contains(id)) live.push_back(id);
  return live;
}

// Returns what two values must have in common to be outputs of one node: containers, dtypes and
// ranks.
std::string kind_of(Memory& memory, const Item& item) {
  std::vector<const Item*> leaves;
  collect(item, leaves);
  std::string kind = str_cat(static_cast<int64_t>(item.value.index()));
  for (const Item* leaf : leaves) {
    const auto* tensor = std::get_if<TensorRef>(&leaf->value);
    if (tensor != nullptr && (*tensor)->is_poisoned()) return "poison";
    if (tensor == nullptr || is_numeric(*leaf)) {
      kind += str_cat(" ", static_cast<int64_t>(leaf->is_bool()),
                      static_cast<int64_t>(leaf->is_real()));
    } else {
      const TensorType type = memory.type(*tensor);
      kind += str_cat(" ", type.dtype, type.rank());
    }
  }
  return kind;
}

// Evaluates the term for the program's example inputs, whose ranks its nodes assume.
std::optional<int64_t> example_value(const ScriptProgram& program, const Dim& term) {
  Bindings made_with;
  for (const SymbolRange& range : program.ranges)
    if (range.example > 0) (void)made_with.bind(range.symbol, range.example).ok();
  const Result<int64_t> value = term.evaluate(made_with);
  return value.ok() ? std::optional(*value) : std::nullopt;
}

// Evaluates the term for the requested sizes.
std::optional<int64_t> asked_value(const ScriptProgram& program, const Dim& term) {
  Bindings asked;
  for (const auto& [symbol, size] : program.asked_sizes) (void)asked.bind(symbol, size).ok();
  const Result<int64_t> value = term.evaluate(asked);
  return value.ok() ? std::optional(*value) : std::nullopt;
}

// Returns whether a size is a symbol of dims other than the first, which is the batch.
bool is_open_feature(std::span<const InputSpec> inputs, const Dim& size) {
  if (size.symbol().empty()) return false;
  for (const InputSpec& input : inputs)
    for (int d = 1; d < input.type.rank(); ++d) {
      std::vector<std::string> used;
      input.type.shape[d].collect_symbols(used);
      if (std::find(used.begin(), used.end(), size.symbol()) != used.end()) return true;
    }
  return false;
}

// If the condition has one symbol, returns a size for which it is `wanted`; otherwise nothing.
std::optional<std::pair<std::string, int64_t>> size_with(const Dim& condition, bool wanted) {
  std::vector<std::string> symbols;
  condition.collect_symbols(symbols);
  constexpr int64_t kMost = 4096;
  for (int64_t size = 1; symbols.size() == 1 && size <= kMost; ++size) {
    Bindings sizes;
    (void)sizes.bind(symbols[0], size).ok();
    const Result<int64_t> value = condition.evaluate(sizes);
    if (value.ok() && (*value != 0) == wanted) return std::pair(symbols[0], size);
  }
  return std::nullopt;
}

}  // namespace

// "the file accepts only sizes with k == 1, because of squeeze at net.py:5; for k != 1, ..."
std::vector<std::string> notes_of_forks(const std::vector<Fork>& forks) {
  std::vector<std::string> notes;
  for (const Fork& fork : forks) {
    if (fork.is_known) continue;
    const std::string& place = fork.origin.source.empty() ? fork.origin.module : fork.origin.source;
    const auto words = [&](bool holds) {
      return condition_text(fork.condition, holds)
          .value_or(str_cat(fork.condition, " == ", int64_t{holds}));
    };
    std::string note = str_cat("the file accepts only sizes with ", words(fork.taken),
                               ", because of ", fork.reason, place.empty() ? "" : " at ", place);
    const auto other = size_with(fork.condition, !fork.taken);
    if (other) {
      const std::string size = str_cat(other->first, "=", other->second);
      note += str_cat("; for ", words(!fork.taken), ", convert with --dim ", size,
                      " or --check-size ", size);
    }
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  }
  return notes;
}

bool Interpreter::is_one(const Dim& size, std::string_view reason, bool expects_one) {
  const Scalar one = equal(size, 1);
  if (const auto known = known_.find(one)) return *known;
  if (splits_.take()) throw Splitting{one};
  const bool is_expected = expects_one && is_open_feature(inputs_, size);
  return take_fork(one, is_expected || usual_value(size) == 1, reason);
}

bool Interpreter::take_fork(const Scalar& condition, bool likely, std::string_view reason) {
  const Origin origin = GraphAccess::body(memory_.graph()).origin;
  Fork fork{str_cat(origin.module, " ", origin.source, " ", condition.top),
            std::string(reason),
            origin,
            condition.top,
            likely,
            false};
  // Stays consistent with earlier assumptions.
  for (const Fork& earlier : report_.forks()) {
    if (earlier.condition == condition.top) fork.taken = earlier.taken;
    if (earlier.condition == negation(condition).top) fork.taken = !earlier.taken;
  }
  if (const auto turned = turned_.find(fork.key); turned != turned_.end()) {
    fork.taken = turned->second;
  } else if (const auto asked = asked_value(program_, condition.top)) {
    fork.taken = *asked != 0;
  } else if (const auto example = example_value(program_, condition.top)) {
    fork.taken = *example != 0;
    fork.is_known = true;
  }
  report_.forks().push_back(fork);
  assume(condition, fork.taken, reason);
  return fork.taken;
}

// Returns the end of the shortest sequence of nodes from `first` on after which all cases have
// values of the same kinds; `first` if there is none.
size_t Interpreter::where_ranks_meet(const ScriptBlock& block, size_t first,
                                     const Splitting& found) {
  const size_t last = std::min(block.nodes.size(), first + kMostNodes);
  std::vector<std::map<ScriptId, std::string>> kinds(std::max<size_t>(found.ways.size(), 2));
  size_t end = last;
  for (size_t way = 0; way < kinds.size(); ++way) {
    Attempt attempt(*this);
    memory_.enter({});
    size_t at = first;
    try {
      const Given given(known_, found.sizes ? &*found.sizes : nullptr, found.data, way == 0);
      for (; at < end; ++at) {
        run_node(at == first && !found.ways.empty() ? found.ways[way] : block.nodes[at]);
        if (attempt.has_failed()) break;
        for (const ScriptId id : block.nodes[at].outputs)
          kinds[way].emplace(id, kind_of(memory_, get(id)));
      }
    } catch (const Raised&) {
    } catch (const Changing&) {
    } catch (const Growing&) {
    } catch (...) {
      memory_.leave();
      attempt.undo();
      throw;
    }
    memory_.leave();
    attempt.undo();
    end = at;
  }
  for (size_t i = first + 1; i <= end; ++i) {
    const std::vector<ScriptId> live = live_after(block, first, i);
    if (std::all_of(live.begin(), live.end(), [&](ScriptId id) {
          return std::all_of(kinds.begin(), kinds.end(),
                             [&](const auto& way) { return way.at(id) == kinds[0].at(id); });
        }))
      return i;
  }
  return first;
}

size_t Interpreter::run_split(const ScriptBlock& block, size_t first, const Splitting& found) {
  const size_t end = where_ranks_meet(block, first, found);
  if (end == first) return first;
  const std::vector<ScriptId> live = live_after(block, first, end);
  const auto nodes_of = [&](size_t way) {
    ScriptBlock side;
    for (size_t i = first; i < end; ++i)
      side.nodes.push_back(i == first && !found.ways.empty() ? found.ways[way] : block.nodes[i]);
    side.outputs = live;
    return side;
  };
  const size_t conditions = found.ways.empty() ? 1 : found.conditions.size();
  ScriptNode node;
  for (size_t way = conditions; way-- > 0;) {
    ScriptBlock other = nodes_of(way + 1);
    if (way + 1 < conditions) other = {{}, {std::move(node)}, live};
    node = ScriptNode();
    node.kind = "prim::If";
    node.origin = block.nodes[first].origin;
    node.inputs = {found.ways.empty() ? found.data : found.conditions[way]};
    node.outputs = live;
    node.blocks = {nodes_of(way), std::move(other)};
  }
  memory_.graph().set_origin(node.origin);
  Attempt attempt(*this);
  try {
    const Scalar* const sizes = found.sizes ? &*found.sizes : nullptr;
    if_on_data(node, sizes != nullptr ? item_of(memory_, *sizes) : get(node.inputs[0]), sizes);
    if (!attempt.has_failed()) return end;
  } catch (const Refusal&) {
  } catch (const Raised&) {
  }
  attempt.undo();
  return first;
}

void Interpreter::run_nodes(const ScriptBlock& block) {
  for (size_t i = 0; i < block.nodes.size();) {
    splits_.begin_node();
    const size_t values = values_.count();
    try {
      run_node(block.nodes[i]);
      ++i;
    } catch (const Splitting& found) {
      const Splits::Conversion converting(splits_);
      const size_t end = run_split(block, i, found);
      values_.drop(values);  // without those of the ways
      if (end == i) run_node(block.nodes[i]);
      i = std::max(i + 1, end);
    }
  }
}

}  // namespace hg::convert
