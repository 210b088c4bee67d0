// SPDX-License-Identifier: Apache-2.0
// Ops whose result rank depends on a size being 1, such as squeeze. The nodes from there to the
// point where both cases have one rank again become an `if` on that size. If there is no such
// point, the usual case is taken under a guard.
#include <algorithm>
#include <map>
#include <set>

#include "converter/interpret/attempt.h"
#include "converter/interpret/item_tree.h"

namespace hg::convert {
namespace {

constexpr size_t kMostNodes = 64;  // of the way to one rank

// Thrown by is_one() where the nodes that follow may become an `if`.
struct Splitting {
  Dim size;
};

void collect_uses(const ScriptBlock& block, std::set<ScriptId>& used) {
  for (const ScriptNode& node : block.nodes) {
    used.insert(node.inputs.begin(), node.inputs.end());
    for (const ScriptBlock& inner : node.blocks) collect_uses(inner, used);
  }
  used.insert(block.outputs.begin(), block.outputs.end());
}

// What the nodes from `first` to before `end` give to those after them.
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

// What two values have in common that one node can give: containers, dtypes and ranks.
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

// What the size was in the inputs that the program was made with, whose ranks its nodes go by;
// where that is not said, what it is for most sizes.
std::optional<int64_t> likely_value(const ScriptProgram& program, const Dim& size) {
  Bindings made_with;
  for (const SymbolRange& range : program.ranges)
    if (range.example > 0) (void)made_with.bind(range.symbol, range.example).ok();
  const Result<int64_t> value = size.evaluate(made_with);
  return value.ok() ? std::optional(*value) : usual_value(size);
}

}  // namespace

std::optional<bool> Interpreter::given(const Scalar& condition) const {
  if (condition.is_constant()) return condition.as_double() != 0;
  const Dim opposite = negation(condition).top;
  for (const auto& [known, value] : given_) {
    if (known == condition.top) return value;
    if (known == opposite) return !value;
  }
  return std::nullopt;
}

bool Interpreter::is_one(const Dim& size, std::string_view reason) {
  const Scalar one = equal(size, 1);
  if (const auto known = given(one)) return *known;
  if (std::exchange(may_split_, false)) throw Splitting{size};
  const bool answer = likely_value(program_, size) == 1;
  assume(one, answer, reason);
  return answer;
}

// The end of the shortest run of nodes from `first` on after which both cases have the same kinds
// of values; `first` if there is none.
size_t Interpreter::where_ranks_meet(const ScriptBlock& block, size_t first, const Scalar& is_one) {
  const size_t last = std::min(block.nodes.size(), first + kMostNodes);
  std::map<ScriptId, std::string> kinds[2];
  size_t end = last;
  for (const bool way : {true, false}) {
    Attempt attempt(*this);
    memory_.enter({});
    size_t at = first;
    try {
      const Given given(*this, &is_one, way);
      for (; at < end; ++at) {
        run_node(block.nodes[at]);
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
    if (std::all_of(live.begin(), live.end(),
                    [&](ScriptId id) { return kinds[0].at(id) == kinds[1].at(id); }))
      return i;
  }
  return first;
}

size_t Interpreter::run_split(const ScriptBlock& block, size_t first, const Dim& size) {
  const Scalar one = equal(size, 1);
  const size_t end = where_ranks_meet(block, first, one);
  if (end == first) return first;
  ScriptNode node;
  node.kind = "prim::If";
  node.origin = block.nodes[first].origin;
  node.outputs = live_after(block, first, end);
  const auto from = block.nodes.begin() + static_cast<std::ptrdiff_t>(first);
  const auto to = block.nodes.begin() + static_cast<std::ptrdiff_t>(end);
  node.blocks.assign(2, ScriptBlock{{}, {from, to}, node.outputs});
  memory_.graph().set_origin(node.origin);
  Attempt attempt(*this);
  try {
    if_on_data(node, item_of(memory_, one), &one);
    if (!attempt.has_failed()) return end;
  } catch (const Refusal&) {
  } catch (const Raised&) {
  }
  attempt.undo();
  return first;
}

void Interpreter::run_nodes(const ScriptBlock& block) {
  for (size_t i = 0; i < block.nodes.size();) {
    may_split_ = !is_splitting_;
    try {
      run_node(block.nodes[i]);
      ++i;
    } catch (const Splitting& found) {
      struct Splits {
        bool& flag;
        ~Splits() { flag = false; }
      } splits{is_splitting_ = true};
      const size_t end = run_split(block, i, found.size);
      if (end == i) run_node(block.nodes[i]);
      i = std::max(i + 1, end);
    }
  }
}

}  // namespace hg::convert
