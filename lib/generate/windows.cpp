// SPDX-License-Identifier: Apache-2.0
#include "lib/generate/windows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "hg/op.h"
#include "lib/graph/ends.h"
#include "lib/graph/rewrite.h"

namespace hg {
namespace {

constexpr double kLow = -1e4;  // a score that softmax turns into 0

bool is_one_of(const Node& node, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), node.op->name()) != names.end();
}

AttrReader attrs_of(const Node& node) { return {node.op, node.attrs}; }

// The tokens of a text are rows of a mask, and the keys its columns: its last two dims.
constexpr int kRow = 2, kColumn = 1;  // dims, counted from the end

// An integer tensor: offset + the sum of coefficient * index along dim.
struct Linear {
  std::map<int, int64_t> coefficients;  // by dim, counted from the end from 1
  Dim offset;
};

std::optional<Linear> sum_of(const std::optional<Linear>& a, const std::optional<Linear>& b,
                             int64_t sign) {
  if (!a || !b) return {};
  Linear sum = *a;
  for (const auto& [dim, coefficient] : b->coefficients)
    sum.coefficients[dim] += sign * coefficient;
  sum.offset = sum.offset + Dim(sign) * b->offset;
  return sum;
}

// Reads masks. All results hold for every size.
class Masks {
 public:
  Masks(const Graph& graph, const Dim& past, bool has_one_row)
      : graph_(graph), past_(past), has_one_row_(has_one_row) {}

  // The smallest w for which `mask` is `wanted` at all keys that are w or more before the token.
  std::optional<int64_t> window(ValueId mask, bool wanted) const {
    const Node* const node = producer(mask);
    if (node == nullptr || type(mask).dtype != boolean) return {};
    const auto of = [&](size_t i, bool value) { return window(node->inputs[i], value); };
    if (is_one_of(*node, {"logical_and", "bitwise_and"}))
      return wanted ? both(of(0, true), of(1, true)) : any(of(0, false), of(1, false));
    if (is_one_of(*node, {"logical_or", "bitwise_or"}))
      return wanted ? any(of(0, true), of(1, true)) : both(of(0, false), of(1, false));
    if (is_one_of(*node, {"logical_not", "bitwise_not"})) return of(0, !wanted);
    if (is_one_of(*node, {"gt", "ge"})) return compared(*node, 0, 1, wanted);
    if (is_one_of(*node, {"lt", "le"})) return compared(*node, 1, 0, wanted);
    if (is_one_of(*node, {"cast", "detach", "expand", "reshape"}) && keeps_places(*node))
      return of(0, wanted);
    return {};
  }

  // The same for a mask that is added to scores, or for scores: where they are low.
  std::optional<int64_t> low(ValueId scores) const {
    const Node* const node = producer(scores);
    if (node == nullptr) return {};
    if (node->op->name() == "where") {
      std::optional<int64_t> found;
      if (is_low(node->inputs[1])) found = window(node->inputs[0], true);
      if (is_low(node->inputs[2])) found = any(found, window(node->inputs[0], false));
      return found;
    }
    if (node->op->name() == "add") return any(low(node->inputs[0]), low(node->inputs[1]));
    // The largest score of a row is not low.
    if (node->op->name() == "sub") {
      const Node* const subtracted = producer(node->inputs[1]);
      return subtracted != nullptr && is_one_of(*subtracted, {"amax", "max"}) &&
                     subtracted->inputs[0] == node->inputs[0]
                 ? low(node->inputs[0])
                 : std::nullopt;
    }
    if (node->op->name() == "concat")  // more columns, such as sinks
      return is_last_dim(*node) ? low(node->inputs[0]) : std::nullopt;
    if (is_one_of(*node, {"cast", "detach", "expand", "reshape"}) && keeps_places(*node))
      return low(node->inputs[0]);
    return {};
  }

  // The same for the weights of values: where they are 0.
  std::optional<int64_t> zero(ValueId weights) const {
    const Node* node = producer(weights);
    while (node != nullptr && node->op->name() != "softmax") {
      if (!is_one_of(*node, {"cast", "detach", "dropout", "slice", "expand", "reshape"}) ||
          !keeps_places(*node))
        return {};
      node = producer(node->inputs[0]);
    }
    return node == nullptr ? std::nullopt : low_softmax(*node);
  }
  std::optional<int64_t> low_softmax(const Node& node) const {
    return is_last_dim(node) ? low(node.inputs[0]) : std::nullopt;
  }

 private:
  const Node* producer(ValueId id) const {
    const int32_t at = id == kNoValue ? -1 : graph_.value_info(id).node;
    return at < 0 ? nullptr : &graph_.nodes()[static_cast<size_t>(at)];
  }
  const TensorType& type(ValueId id) const { return graph_.value_info(id).type; }

  static std::optional<int64_t> any(std::optional<int64_t> a, std::optional<int64_t> b) {
    return a && b ? std::min(*a, *b) : a ? a : b;
  }
  static std::optional<int64_t> both(std::optional<int64_t> a, std::optional<int64_t> b) {
    return a && b ? std::optional(std::max(*a, *b)) : std::nullopt;
  }

  bool is_last_dim(const Node& node) const {
    const Dim dim = attrs_of(node).integer("dim");
    return dim == Dim(-1) || dim == Dim(type(node.outputs[0]).rank() - 1);
  }

  // Whether rows and columns stay where they are.
  bool keeps_places(const Node& node) const {
    const Shape &in = type(node.inputs[0]).shape, &out = type(node.outputs[0]).shape;
    if (node.op->name() == "slice") {
      const AttrReader attrs = attrs_of(node);
      return attrs.integer("start") == Dim(0) && attrs.integer("step") == Dim(1);
    }
    if (node.op->name() != "reshape") return true;
    if (in.size() < 2 || out.size() < 2) return false;
    return std::equal(in.end() - 2, in.end(), out.end() - 2);
  }

  bool is_low(ValueId id) const {
    const Node* const node = producer(id);
    if (node != nullptr) {
      if (node->op->name() == "full") return attrs_of(*node).real("value") <= kLow;
      return is_one_of(*node, {"cast", "detach", "expand", "reshape"}) && is_low(node->inputs[0]);
    }
    const TensorData* const data = graph_.constant_of(id);
    if (data == nullptr || data->tensor.count() != 1) return false;
    const Tensor& one = data->tensor;
    return one.dtype == f32   ? *one.as<float>() <= kLow
           : one.dtype == f64 ? *one.as<double>() <= kLow
                              : false;
  }

  std::optional<int64_t> compared(const Node& node, size_t larger, size_t smaller,
                                  bool wanted) const {
    const std::optional<Linear> difference =
        sum_of(linear(node.inputs[larger]), linear(node.inputs[smaller]), -1);
    if (!difference) return {};
    // The node is: offset + column_sign * (column - row) > 0.
    const int64_t column_sign = wanted ? -1 : 1;
    for (const auto& [dim, coefficient] : difference->coefficients) {
      const int64_t sign = dim == kColumn ? column_sign : dim == kRow ? -column_sign : 0;
      if (coefficient != sign) return {};
    }
    const size_t terms = has_one_row_ ? 1 : 2;
    if (difference->coefficients.size() < terms || !difference->coefficients.contains(kColumn))
      return {};
    const bool is_or_equal = is_one_of(node, {"ge", "le"});
    const Dim offset = difference->offset + Dim(is_or_equal ? 1 : 0);
    // A column is w before the token of a row if column - row = past - w.
    const Dim w = wanted ? past_ - offset + Dim(1) : past_ + offset;
    if (!w.is_constant() || w.constant() < 1) return {};
    return w.constant();
  }

  std::optional<Linear> linear(ValueId id) const {
    const TensorType& out = type(id);
    if (out.dtype != i64 && out.dtype != i32) return {};
    const Node* const node = producer(id);
    if (node == nullptr) {
      const TensorData* const data = graph_.constant_of(id);
      if (data == nullptr || data->tensor.count() != 1) return {};
      const Tensor& one = data->tensor;
      return Linear{{}, out.dtype == i64 ? *one.as<int64_t>() : int64_t{*one.as<int32_t>()}};
    }
    const AttrReader attrs = attrs_of(*node);
    const std::string_view op = node->op->name();
    const auto of = [&](size_t i) { return linear(node->inputs[i]); };
    if (op == "arange") {
      const Dim step = attrs.integer("step");
      if (!step.is_constant()) return {};
      if (out.shape[0] == Dim(1)) return Linear{{}, attrs.integer("start")};
      return Linear{{{1, step.constant()}}, attrs.integer("start")};
    }
    if (op == "dims" && attrs.integers("values").size() == 1)
      return Linear{{}, attrs.integers("values")[0]};
    if (op == "full") {
      const double value = attrs.real("value");
      if (value != static_cast<double>(static_cast<int64_t>(value))) return {};
      return Linear{{}, static_cast<int64_t>(value)};
    }
    if (op == "add" || op == "sub") return sum_of(of(0), of(1), op == "add" ? 1 : -1);
    if (op == "neg") return sum_of(Linear(), of(0), -1);
    if (op == "cast" || op == "detach" || op == "expand") return of(0);
    if (op == "reshape") return reshaped(of(0), type(node->inputs[0]).shape, out.shape);
    return {};
  }

  // A reshape that only adds or drops dims of size 1.
  static std::optional<Linear> reshaped(const std::optional<Linear>& x, const Shape& in,
                                        const Shape& out) {
    if (!x) return {};
    const auto long_dims = [](const Shape& shape) {
      std::vector<int> dims;
      for (int d = 0; d < std::ssize(shape); ++d)
        if (!(shape[static_cast<size_t>(d)] == Dim(1))) dims.push_back(d);
      return dims;
    };
    const std::vector<int> from = long_dims(in), to = long_dims(out);
    if (from.size() != to.size()) return {};
    Linear moved{{}, x->offset};
    for (size_t i = 0; i < from.size(); ++i) {
      if (in[static_cast<size_t>(from[i])] != out[static_cast<size_t>(to[i])]) return {};
      const auto found = x->coefficients.find(static_cast<int>(std::ssize(in)) - from[i]);
      if (found != x->coefficients.end())
        moved.coefficients[static_cast<int>(std::ssize(out)) - to[i]] = found->second;
    }
    return moved;
  }

  const Graph& graph_;
  Dim past_;
  bool has_one_row_;  // each run reads one token
};

class Finder {
 public:
  Finder(const Graph& graph, const std::vector<CarriedValue>& carried)
      : graph_(graph), carried_(carried) {}

  Result<std::optional<Windows>> run() {
    find_candidates();
    if (candidates_.empty()) return std::optional<Windows>();
    join();
    std::optional<Windows> found = std::move(*this).chosen();
    if (!found) return found;
    HG_TRY(narrow(*found));
    return found;
  }

 private:
  // A carried value with the positions of `past_`, to which a concat appends.
  struct Candidate {
    std::string name;
    ValueId input = kNoValue, output = kNoValue;
  };

  bool has_past(const Dim& dim) const {
    std::vector<std::string> names;
    dim.collect_symbols(names);
    return std::find(names.begin(), names.end(), past_.symbol()) != names.end();
  }
  bool has_past(ValueId id) const {
    const Shape& shape = graph_.value_info(id).type.shape;
    return std::any_of(shape.begin(), shape.end(), [&](const Dim& dim) { return has_past(dim); });
  }

  void find_candidates() {
    uses_ = use_counts(graph_);
    for (const CarriedValue& each : carried_) {
      const Candidate found{each.input, input_named(graph_, each.input),
                            output_named(graph_, each.output)};
      const int32_t at = found.output == kNoValue ? -1 : graph_.value_info(found.output).node;
      if (at < 0 || found.input == kNoValue || uses_[static_cast<size_t>(found.input)] != 1)
        continue;
      const Node& node = graph_.nodes()[static_cast<size_t>(at)];
      if (node.op->name() != "concat" || node.inputs[0] != found.input) continue;
      const TensorType &before = graph_.value_info(found.input).type,
                       &after = graph_.value_info(found.output).type;
      for (int d = 0; d < before.rank(); ++d) {
        const Dim &past = before.shape[static_cast<size_t>(d)],
                  &all = after.shape[static_cast<size_t>(d)];
        if (past == all) continue;
        if (past.symbol().empty()) break;
        if (candidates_.empty()) {
          past_ = past;
          all_ = all;
        }
        if (past == past_ && all == all_) candidates_.push_back(found);
        break;
      }
    }
  }

  // ---- What is computed from a candidate has its positions, until attention sums over them ----

  size_t root(size_t id) const {
    while (group_[id] != id) id = group_[id];
    return id;
  }

  // Groups the values that depend on each other's positions. Finds the window of each group.
  void join() {
    group_.resize(static_cast<size_t>(graph_.value_count()));
    std::iota(group_.begin(), group_.end(), size_t{0});
    is_narrow_.resize(group_.size());
    for (const Candidate& each : candidates_) is_narrow_[static_cast<size_t>(each.input)] = true;
    const auto is_narrow = [&](ValueId id) {
      return id != kNoValue && is_narrow_[static_cast<size_t>(id)];
    };
    const Masks masks(graph_, past_, all_ - past_ == Dim(1));
    std::vector<std::pair<size_t, std::optional<int64_t>>> read;  // by group
    for (const Node& node : graph_.nodes()) {
      std::vector<ValueId> joined;
      std::copy_if(node.inputs.begin(), node.inputs.end(), std::back_inserter(joined), is_narrow);
      if (joined.empty()) continue;
      const bool sums = std::none_of(node.outputs.begin(), node.outputs.end(),
                                     [&](ValueId id) { return has_past(id); });
      if (!sums)
        for (const ValueId id : node.outputs) {
          is_narrow_[static_cast<size_t>(id)] = true;
          joined.push_back(id);
        }
      for (const ValueId id : joined)
        group_[root(static_cast<size_t>(id))] = root(static_cast<size_t>(joined[0]));
      const auto at = static_cast<size_t>(joined[0]);
      if (sums)
        read.emplace_back(at, window_of(node, masks, is_narrow));
      else if (!passes(node, is_narrow))
        read.emplace_back(at, std::nullopt);
      else if (node.op->name() == "softmax")
        read.emplace_back(at, masks.low_softmax(node));
    }
    for (const auto& [name, id] : graph_.outputs()) {
      const bool is_carried =
          std::any_of(candidates_.begin(), candidates_.end(),
                      [&, id = id](const Candidate& each) { return each.output == id; });
      if (is_narrow(id) && !is_carried) read.emplace_back(static_cast<size_t>(id), std::nullopt);
    }
    for (const auto& [target, source] : graph_.assignments())
      if (is_narrow(source)) read.emplace_back(static_cast<size_t>(source), std::nullopt);
    for (const auto& [id, window] : read) {
      const size_t at = root(id);
      if (!window || whole_.contains(at))
        whole_.insert(at);
      else
        windows_[at] = std::max(windows_[at], *window);
    }
  }

  // Whether a size has the past at most once.
  bool is_simple(const Dim& dim) const {
    return !has_past(dim) || dim == without_past(dim) + past_;
  }
  Dim without_past(const Dim& dim) const {
    Bindings none;
    (void)none.bind(past_.symbol(), 0);
    return dim.substitute(none);
  }
  // The dim of positions; -1 if there is none or several.
  int past_dim(const Shape& shape) const {
    const auto has = [&](const Dim& dim) { return has_past(dim); };
    if (std::count_if(shape.begin(), shape.end(), has) != 1) return -1;
    return static_cast<int>(std::find_if(shape.begin(), shape.end(), has) - shape.begin());
  }

  // Whether the op keeps the positions apart, and all its inputs have all of them.
  template <class IsNarrow>
  bool passes(const Node& node, const IsNarrow& is_narrow) const {
    for (const ValueId id : node.inputs) {
      if (id == kNoValue || is_narrow(id)) continue;
      for (const Dim& dim : graph_.value_info(id).type.shape)
        if (has_past(dim) && !(dim == all_)) return false;
    }
    const AttrReader attrs = attrs_of(node);
    const Shape& out = graph_.value_info(node.outputs[0]).type.shape;
    const int to = past_dim(out);
    if (to < 0 || !is_simple(out[static_cast<size_t>(to)])) return false;
    if ((node.op->def.traits & kElementwise) != 0) return true;
    if (node.op->name() == "matmul")  // of queries and keys
      return !is_narrow(node.inputs[0]) && !has_past(node.inputs[0]) && to + 1 == std::ssize(out);
    if (node.op->name() == "concat")  // sinks beside scores
      return std::none_of(node.inputs.begin() + 1, node.inputs.end(),
                          [&](ValueId id) { return has_past(id); });
    const Shape& in = graph_.value_info(node.inputs[0]).type.shape;
    const int from = past_dim(in);
    if (from < 0) return false;
    if (node.op->name() == "reshape")
      return count({in.begin() + from + 1, in.end()}) == count({out.begin() + to + 1, out.end()});
    if (node.op->name() == "slice") {
      const Dim dim = attrs.integer("dim");
      return (!(dim == Dim(from)) && !(dim == Dim(from - std::ssize(in)))) ||
             (attrs.integer("start") == Dim(0) && attrs.integer("step") == Dim(1) &&
              is_simple(attrs.integer("end")) && has_past(attrs.integer("end")));
    }
    return is_one_of(node, {"expand", "permute", "cast", "detach", "softmax", "dropout"});
  }

  // The window of a node that sums over positions.
  template <class IsNarrow>
  std::optional<int64_t> window_of(const Node& node, const Masks& masks,
                                   const IsNarrow& is_narrow) const {
    if (node.op->name() == "attention") {
      const ValueId mask = node.inputs.size() > 3 ? node.inputs[3] : kNoValue;
      if (is_narrow(node.inputs[0]) || !is_narrow(node.inputs[1]) || !is_narrow(node.inputs[2]) ||
          mask == kNoValue || is_narrow(mask) || attrs_of(node).flag("causal"))
        return {};
      const TensorType& type = graph_.value_info(mask).type;
      if (type.rank() < 2 || !(type.shape.back() == all_)) return {};
      return type.dtype == boolean ? masks.window(mask, false) : masks.low(mask);
    }
    if (node.op->name() == "matmul" && is_narrow(node.inputs[0]) && is_narrow(node.inputs[1]))
      return masks.zero(node.inputs[0]);
    // The largest scores; their positions would be other ones.
    if (node.op->name() == "amax" ||
        (node.op->name() == "max" && uses_[static_cast<size_t>(node.outputs[1])] == 0))
      return masks.low(node.inputs[0]);
    return {};
  }

  std::optional<Windows> chosen() && {
    Windows found{Graph(), {}, 0};
    for (const Candidate& each : candidates_) {
      const size_t at = root(static_cast<size_t>(each.input));
      if (whole_.contains(at) || !windows_.contains(at)) continue;
      found.inputs.push_back(each.name);
      found.size = std::max(found.size, windows_[at]);
    }
    // Another input must say how many positions there were.
    const bool is_known =
        std::any_of(graph_.inputs().begin(), graph_.inputs().end(), [&](ValueId id) {
          const std::string& name = graph_.value_info(id).name;
          return has_past(id) &&
                 std::find(found.inputs.begin(), found.inputs.end(), name) == found.inputs.end();
        });
    if (found.inputs.empty() || !is_known) return {};
    return found;
  }

  // ---- The graph for the last positions ----

  // The dim with the window's positions in the place of the past.
  Dim narrowed(const Dim& dim) const { return has_past(dim) ? without_past(dim) + window_ : dim; }
  Attr narrowed(Attr attr) const {
    if (Dim* const dim = std::get_if<Dim>(&attr.value)) *dim = narrowed(*dim);
    if (auto* const dims = std::get_if<std::vector<Dim>>(&attr.value))
      for (Dim& dim : *dims) dim = narrowed(dim);
    return attr;
  }
  NamedAttrs narrowed_attrs(const Node& node) const {
    NamedAttrs attrs = named_attrs(node);
    for (NamedAttr& attr : attrs) attr.value = narrowed(std::move(attr.value));
    return attrs;
  }

  // The last positions of a value that all tokens share, such as a mask. Slices what it is computed
  // from, where that is possible: masks of a long past are large.
  Value last(Graph& graph, ValueId id) {
    if (const auto known = sliced_.find(id); known != sliced_.end()) return known->second;
    const ValueInfo& info = graph_.value_info(id);
    const Node* const node =
        info.node < 0 ? nullptr : &graph_.nodes()[static_cast<size_t>(info.node)];
    Value made;
    if (node != nullptr &&
        ((node->op->def.traits & kElementwise) != 0 || is_one_of(*node, {"cast", "expand"}))) {
      std::vector<Value> inputs;
      for (const ValueId input : node->inputs)
        inputs.push_back(input == kNoValue ? Value()
                         : has_past(input) ? last(graph, input)
                                           : graph.value(input));
      made = graph.call(node->op->name(), inputs, narrowed_attrs(*node));
    } else {
      made = graph.value(id);
      for (int d = 0; d < info.type.rank(); ++d)
        if (info.type.shape[static_cast<size_t>(d)] == all_)
          made =
              graph.call("slice", {made}, {{"dim", d}, {"start", past_ - window_}, {"end", all_}});
    }
    return sliced_[id] = made;
  }

  Status narrow(Windows& found) {
    std::set<size_t> narrow_groups;
    found.graph = Graph(graph_);
    Graph& graph = found.graph;
    GraphBody& body = GraphAccess::body(graph);
    window_ = Dim(kWindowPast);
    graph.input(kWindowPast, boolean, {window_});
    graph.guard(window_, Relation::le, past_, "a sliding window");
    for (const std::string& name : found.inputs) {
      const ValueId id = input_named(graph_, name);
      narrow_groups.insert(root(static_cast<size_t>(id)));
      for (Dim& dim : body.values[static_cast<size_t>(id)].type.shape) dim = narrowed(dim);
    }
    const auto is_narrow = [&](ValueId id) {
      return id != kNoValue && id < std::ssize(is_narrow_) && is_narrow_[static_cast<size_t>(id)] &&
             narrow_groups.contains(root(static_cast<size_t>(id)));
    };
    size_t at = 0;
    HG_TRY(rewrite(graph, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
      const Node& original = graph_.nodes()[at++];
      if (std::none_of(original.inputs.begin(), original.inputs.end(), is_narrow))
        return std::optional<std::vector<Value>>();
      std::vector<Value> inputs;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId id = original.inputs[i];
        inputs.push_back(id == kNoValue                   ? Value()
                         : !is_narrow(id) && has_past(id) ? last(graph, id)
                                                          : graph.value(node.inputs[i]));
      }
      return std::optional(graph.calls(node.op->name(), inputs, narrowed_attrs(node)));
    }));
    remove_dead_nodes(graph);
    HG_TRY(graph.status());
    return graph.verify();
  }

  const Graph& graph_;
  const std::vector<CarriedValue>& carried_;
  std::vector<Candidate> candidates_;
  std::vector<int> uses_;  // of values
  Dim past_, all_, window_;
  std::vector<size_t> group_;          // of values: another value of the group
  std::vector<bool> is_narrow_;        // values that have the positions of candidates
  std::map<size_t, int64_t> windows_;  // by root
  std::set<size_t> whole_;             // roots of groups that need all positions
  std::map<ValueId, Value> sliced_;
};

}  // namespace

Result<std::optional<Windows>> find_windows(const Graph& graph,
                                            const std::vector<CarriedValue>& carried) {
  return Finder(graph, carried).run();
}

}  // namespace hg
