// SPDX-License-Identifier: Apache-2.0
#include "lib/compile/pattern.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "lib/graph/element.h"
#include "lib/platform/chars.h"

namespace hg {

bool is_filled(const Match& m, ValueId id, double with) {
  const TensorData* data = fixed_data(m.graph(), m.context(), id);
  if (data == nullptr || !is_float(data->tensor.dtype)) return false;
  for (int64_t i = 0; i < data->tensor.count(); ++i)
    if (element(data->tensor, i) != with) return false;
  return true;
}

std::optional<double> constant_number(const Graph& graph, const CompileContext& context,
                                      ValueId id) {
  const TensorData* data = fixed_data(graph, context, id);
  if (data == nullptr || data->tensor.count() != 1) return std::nullopt;
  switch (data->tensor.dtype) {
    case f64:
      return *data->tensor.as<double>();
    case f32:
      return *data->tensor.as<float>();
    case i64:
      return static_cast<double>(*data->tensor.as<int64_t>());
    case i32:
      return *data->tensor.as<int32_t>();
    default:
      return std::nullopt;
  }
}

const Match::Binding* Match::find(std::string_view name) const {
  for (const Binding& binding : bindings_)
    if (binding.name == name) return &binding;
  return nullptr;
}
bool Match::has(std::string_view name) const { return find(name) != nullptr; }
Value Match::value(std::string_view name) const {
  const Binding* binding = find(name);
  return binding == nullptr ? Value() : graph_->value(binding->value);
}
double Match::number(std::string_view name, double fallback) const {
  const Binding* binding = find(name);
  return binding == nullptr ? fallback : binding->number;
}
const Node& Match::node(std::string_view name) const {
  const int32_t index = graph_->value_info(find(name)->value).node;
  return graph_->nodes()[index];
}
AttrReader Match::attrs(std::string_view name) const {
  const Node& found = node(name);
  return AttrReader(found.op, found.attrs);
}

namespace {

struct Term {
  enum class Kind : uint8_t { variable, definition, capture, number, op } kind = Kind::variable;
  std::string_view name;    // of the variable, the capture or the op
  std::string_view called;  // op[called]
  double number = 0;
  int definition = -1;
  std::vector<Term> inputs;
};
struct Definition {
  std::string_view name;
  std::vector<Term> alternatives;
};

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  Result<std::vector<Definition>> parse() {
    while (skip(), at_ < text_.size()) {
      Definition definition{word(), {}};
      HG_TRY(expect(':'));
      do {
        HG_TRY_ASSIGN(Term term, this->term());
        definition.alternatives.push_back(std::move(term));
      } while (take('|'));
      definitions_.push_back(std::move(definition));
    }
    HG_CHECK(!definitions_.empty(), "a pattern has no definition");
    return std::move(definitions_);
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Status expect(char c) {
    return take(c) ? Status()
                   : internal_error("pattern '", text_, "' lacks a '", std::string(1, c), "' at ",
                                    static_cast<int64_t>(at_));
  }
  std::string_view word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }
  Result<Term> term() {
    Term term;
    if (take('$')) {
      term.kind = Term::Kind::capture;
      term.name = word();
      return term;
    }
    skip();
    if (at_ < text_.size() &&
        (text_[at_] == '-' || std::isdigit(static_cast<unsigned char>(text_[at_])))) {
      term.kind = Term::Kind::number;
      const auto end = from_chars(text_.data() + at_, text_.data() + text_.size(), term.number).ptr;
      at_ = static_cast<size_t>(end - text_.data());
      return term;
    }
    term.name = word();
    HG_CHECK(!term.name.empty(), "pattern '", text_, "' lacks a term at ",
             static_cast<int64_t>(at_));
    if (take('[')) {
      term.called = word();
      HG_TRY(expect(']'));
    }
    if (take('(')) {
      term.kind = Term::Kind::op;
      do {
        HG_TRY_ASSIGN(Term input, this->term());
        term.inputs.push_back(std::move(input));
      } while (take(','));
      HG_TRY(expect(')'));
      return term;
    }
    for (size_t i = 0; i < definitions_.size(); ++i)
      if (definitions_[i].name == term.name) {
        term.kind = Term::Kind::definition;
        term.definition = static_cast<int>(i);
      }
    return term;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<Definition> definitions_;
};

}  // namespace

// Matches one pattern by backtracking. The goals are the terms that remain to be matched.
class Matcher {
 public:
  Matcher(Graph& graph, const CompileContext& context, const std::vector<Definition>& definitions)
      : graph_(graph), definitions_(definitions) {
    match_.graph_ = &graph;
    match_.context_ = &context;
  }

  // `uses`: how often each value is read. The root's op must be one of the alternatives.
  template <class Uses>
  std::optional<Match> match(ValueId root, const Uses& uses) {
    match_.root_ = root;
    accept_ = [](void* arg, Matcher& matcher) {
      return matcher.is_closed(*static_cast<const Uses*>(arg));
    };
    accept_arg_ = const_cast<Uses*>(&uses);
    Term top;
    top.kind = Term::Kind::definition;
    top.definition = static_cast<int>(definitions_.size()) - 1;
    const Goal goal{&top, root, nullptr};
    if (!solve(&goal)) return std::nullopt;
    return match_;
  }

 private:
  struct Goal {
    const Term* term;
    ValueId value;
    const Goal* next;
  };

  const Node* producer(ValueId id) const {
    const int32_t index = id == kNoValue ? -1 : graph_.value_info(id).node;
    return index < 0 ? nullptr : &graph_.nodes()[index];
  }

  bool solve(const Goal* goal) {
    if (goal == nullptr) return accept_(accept_arg_, *this);
    const Term& term = *goal->term;
    const size_t bound = match_.bindings_.size(), inside = match_.inside_.size();
    const auto undo = [&] {
      match_.bindings_.resize(bound);
      match_.inside_.resize(inside);
      return false;
    };
    switch (term.kind) {
      case Term::Kind::definition:
        for (const Term& alternative : definitions_[term.definition].alternatives) {
          const Goal chosen{&alternative, goal->value, goal->next};
          if (solve(&chosen)) return true;
        }
        return undo();
      case Term::Kind::variable: {
        if (goal->value == kNoValue) return undo();
        const Match::Binding* known = match_.find(term.name);
        if (known != nullptr)
          return known->value == goal->value && solve(goal->next) ? true : undo();
        match_.bindings_.push_back({term.name, goal->value, 0});
        return solve(goal->next) ? true : undo();
      }
      case Term::Kind::capture:
      case Term::Kind::number: {
        const std::optional<double> number = constant_number(graph_, *match_.context_, goal->value);
        if (!number) return undo();
        if (term.kind == Term::Kind::number) {
          if (!(std::abs(*number - term.number) <= 1e-6 * std::abs(term.number))) return undo();
        } else {
          const Match::Binding* known = match_.find(term.name);
          if (known != nullptr && known->number != *number) return undo();
          if (known == nullptr) match_.bindings_.push_back({term.name, goal->value, *number});
        }
        return solve(goal->next) ? true : undo();
      }
      case Term::Kind::op:
        return solve_node(term, *goal) ? true : undo();
    }
    return undo();
  }

  bool solve_node(const Term& term, const Goal& goal) {
    const Node* node = producer(goal.value);
    if (node == nullptr || node->op->name() != term.name || node->outputs[0] != goal.value)
      return false;
    size_t given = node->inputs.size();
    while (given > 0 && node->inputs[given - 1] == kNoValue) --given;
    if (given != term.inputs.size()) return false;
    if (!term.called.empty()) match_.bindings_.push_back({term.called, goal.value, 0});
    match_.inside_.push_back(goal.value);
    const std::vector<ValueId>& in = node->inputs;
    if (solve_inputs(term, in, false, goal.next)) return true;
    return given == 2 && (node->op->def.traits & kCommutative) &&
           solve_inputs(term, in, true, goal.next);
  }

  bool solve_inputs(const Term& term, const std::vector<ValueId>& in, bool swapped,
                    const Goal* next) {
    std::vector<Goal> goals(term.inputs.size());
    for (size_t i = goals.size(); i-- > 0;) {
      goals[i] = {&term.inputs[i], in[swapped ? 1 - i : i], next};
      next = &goals[i];
    }
    return solve(next);
  }

  // Whether all readers of the inner values are part of the match.
  template <class Uses>
  bool is_closed(const Uses& uses) {
    std::vector<ValueId> nodes = match_.inside_;
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    for (const ValueId id : nodes) {
      if (id == match_.root_) continue;
      int inside = 0;
      for (const ValueId reader : nodes)
        for (const ValueId in : producer(reader)->inputs) inside += in == id;
      if (inside != uses(id)) return false;
      const Node& node = *producer(id);
      for (size_t k = 1; k < node.outputs.size(); ++k)
        if (uses(node.outputs[k]) != 0) return false;
    }
    return true;
  }

  Graph& graph_;
  const std::vector<Definition>& definitions_;
  Match match_;
  bool (*accept_)(void*, Matcher&) = nullptr;
  void* accept_arg_ = nullptr;
};

namespace {

// The ops that a root may have.
void root_ops(const std::vector<Definition>& definitions, const Term& term,
              std::vector<std::string_view>& ops) {
  if (term.kind == Term::Kind::op) ops.push_back(term.name);
  if (term.kind != Term::Kind::definition) return;
  for (const Term& next : definitions[term.definition].alternatives)
    root_ops(definitions, next, ops);
}

// Whether the root of a pattern can be a node of one of these ops. Reads only the last definition:
// for a small graph, parsing all patterns would take longer than matching.
bool can_match(std::string_view pattern, const std::unordered_set<std::string_view>& ops) {
  const std::string_view root = pattern.substr(pattern.rfind(':') + 1);
  size_t begin = 0;  // of an alternative
  for (int depth = 0; begin < root.size();) {
    const std::string_view rest = root.substr(begin);
    const size_t first = rest.find_first_not_of(' ');
    const size_t end = rest.find_first_of(" ([|", first);
    const bool is_op = end < rest.size() && (rest[end] == '(' || rest[end] == '[');
    if (!is_op || ops.contains(rest.substr(first, end - first))) return true;
    for (; begin < root.size() && (root[begin] != '|' || depth > 0); ++begin)
      depth += (root[begin] == '(') - (root[begin] == ')');
    ++begin;
  }
  return false;
}

}  // namespace

Status apply_rules(Graph& graph, const CompileContext& context, std::span<const Rule> rules,
                   bool any_dtype) {
  std::vector<std::vector<Definition>> patterns(rules.size());  // empty: not parsed yet
  std::unordered_map<std::string_view, std::vector<size_t>> by_op;
  constexpr int kMostRounds = 8;  // each shortens the graph; chains rarely need more than two
  for (int round = 0; round < kMostRounds; ++round) {
    std::unordered_set<std::string_view> present;  // rules may add ops
    for (const Node& node : graph.nodes()) present.insert(node.op->name());
    for (size_t i = 0; i < rules.size(); ++i) {
      if (!patterns[i].empty() || !can_match(rules[i].pattern, present)) continue;
      HG_TRY_ASSIGN(patterns[i], PatternParser(rules[i].pattern).parse());
      std::vector<std::string_view> ops;
      for (const Term& term : patterns[i].back().alternatives) root_ops(patterns[i], term, ops);
      for (const std::string_view op : ops) {
        std::vector<size_t>& of_op = by_op[op];  // in the order of the rules
        const auto at = std::lower_bound(of_op.begin(), of_op.end(), i);
        if (at == of_op.end() || *at != i) of_op.insert(at, i);
      }
    }
    bool changed = false;
    const std::vector<int> counts = use_counts(graph);
    std::unordered_map<ValueId, int> new_counts;
    const auto uses = [&](ValueId id) {
      const auto found = new_counts.find(id);
      if (found != new_counts.end()) return found->second;
      return static_cast<size_t>(id) < counts.size() ? counts[id] : 1;
    };
    HG_TRY(rewrite(graph, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
      const auto candidates = by_op.find(node.op->name());
      const std::optional<std::vector<Value>> none;
      if (candidates == by_op.end() || node.outputs.size() != 1) return none;
      const ValueId root = node.outputs[0];
      const TensorType type = graph.value_info(root).type;
      if (!any_dtype && type.dtype != f32) return none;
      // The matcher finds nodes by their outputs, but the root is not in the graph yet.
      GraphBody& body = GraphAccess::body(graph);
      body.nodes.push_back(node);
      body.values[root].node = static_cast<int32_t>(body.nodes.size()) - 1;
      std::vector<std::pair<size_t, Match>> matches;
      for (const size_t i : candidates->second) {
        std::optional<Match> match = Matcher(graph, context, patterns[i]).match(root, uses);
        if (match) matches.emplace_back(i, *std::move(match));
      }
      Value built;
      for (auto& [i, match] : matches) {
        built = rules[i].build(match);
        const bool failed = !graph.take_status().ok();
        if (!failed && built && graph.value_info(built.id()).type == type) break;
        built = Value();
      }
      // Removes the root again. Nodes that a builder added come after it.
      const auto at = static_cast<size_t>(body.values[root].node);
      body.nodes.erase(body.nodes.begin() + static_cast<std::ptrdiff_t>(at));
      for (size_t k = at; k < body.nodes.size(); ++k)
        for (const ValueId id : body.nodes[k].outputs)
          body.values[id].node = static_cast<int32_t>(k);
      body.values[root].node = -1;
      if (!built) return none;
      changed = true;
      new_counts[built.id()] = uses(root) + (new_counts.count(built.id()) > 0 ||
                                                     static_cast<size_t>(built.id()) < counts.size()
                                                 ? uses(built.id())
                                                 : 0);
      return std::optional(std::vector<Value>{built});
    }));
    remove_dead_nodes(graph);
    if (!changed) break;
  }
  return {};
}

}  // namespace hg
