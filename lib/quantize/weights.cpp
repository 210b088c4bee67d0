// SPDX-License-Identifier: Apache-2.0
// Finds weights by their readers: an op of the table below, possibly through views, casts and
// inputs of bodies. The dims over which the op sums determine which elements share a scale.
#include "lib/quantize/weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "lib/graph/rewrite.h"
#include "lib/graph/symbols.h"

namespace hg {
namespace {

// For an input of an op: the dims whose elements may share a scale, from `from` to `to`, or all
// except one; at most `most` elements of the first of them.
struct Shared {
  int from = 0, to = 0;
  int64_t most = 0;  // 0: all
  int but = -1;
};

Shared last(const Node&, const Sizes& shape) { return {shape.rank() - 1, shape.rank()}; }
Shared first_of_matrix(const Node&, const Sizes& shape) {
  const int at = std::max(shape.rank() - 2, 0);
  return {at, at + 1};
}
Shared all_but_first(const Node&, const Sizes& shape) { return {1, shape.rank()}; }
Shared entries(const Node& node, const Sizes& shape) {
  const Dim dim = AttrReader(node.op, node.attrs).integer("dim");
  const bool is_first = dim == Dim(0) || dim == Dim(-shape.rank());
  return is_first ? all_but_first(node, shape) : Shared{};
}
// [out, in / groups, ...]; transposed: [in, out / groups, ...].
Shared kernels(const Node& node, const Sizes& shape) {
  const AttrReader attrs(node.op, node.attrs);
  if (!attrs.flag("transposed")) return all_but_first(node, shape);
  const Dim groups = attrs.integer("groups");
  if (!groups.is_constant()) return {};
  const int64_t most = std::max<int64_t>(shape[0] / groups.constant(), 1);
  return {.from = 0, .to = shape.rank(), .most = most, .but = 1};
}

struct Reader {
  std::string_view op;
  int input;
  Shared (*shared)(const Node& node, const Sizes& shape);
};
constexpr Reader kReaders[] = {
    {"linear", 1, last},
    {"matmul", 0, last},
    {"matmul", 1, first_of_matrix},
    {"conv", 1, kernels},
    {"grouped_mm", 1, first_of_matrix},
    {"lstm_scan", 3, last},
    {"lstm_scan", 5, last},
    {"gru_scan", 2, last},
    {"rnn_scan", 2, last},
    {"embedding", 0, all_but_first},
    {"index_select", 0, entries},
};

const Reader* reader(const Node& node, int input) {
  for (const Reader& row : kReaders)
    if (row.op == node.op->name() && row.input == input) return &row;
  return nullptr;
}

// Whether a name is `path` or below it.
bool is_below(std::string_view name, std::string_view path) {
  return name.starts_with(path) && (name.size() == path.size() || name[path.size()] == '.');
}

// The elements of a weight that views and casts select, by position.
struct Look {
  Sizes shape, strides;
};

// The dims of the weight to which the shared dims of a view correspond.
Blocks blocks_for(const Sizes& shape, const Look& look, const Shared& shared, int64_t group) {
  Blocks blocks{shape, Sizes(shape.rank(), 1)};
  const Sizes strides = contiguous_strides(shape);
  int first = -1;
  for (int d = 0; d < shape.rank(); ++d)
    for (int i = shared.from; i < shared.to; ++i) {
      const int64_t stride = std::abs(look.strides[i]);
      if (i == shared.but || shape[d] <= 1) continue;
      if (strides[d] < stride || strides[d] >= stride * look.shape[i]) continue;
      blocks.sizes[d] = shape[d];
      if (first < 0 && i == shared.from) {
        first = d;
        if (shared.most > 0) blocks.sizes[d] = std::min(blocks.sizes[d], shared.most);
      }
    }
  if (first >= 0 && group > 0 && shape.rank() < kMaxRank)
    blocks.sizes[first] = std::min(blocks.sizes[first], group);
  return blocks;
}

// A value that is a weight seen through views.
struct Seen {
  Graph* graph;
  ValueId id;
  Look look;
};

class Finder {
 public:
  Finder(std::span<Graph* const> graphs, const QuantizeOptions& options, bool all)
      : options_(options), all_(all) {
    for (Graph* graph : graphs) add(*graph);
  }

  std::vector<Weight> find() {
    std::vector<Weight> weights;
    std::map<std::tuple<const void*, DType, std::vector<int64_t>>, size_t> known;
    std::set<size_t> left;
    for (Graph* graph : graphs_) {
      const std::vector<bool> changed = changed_states(*graph);
      for (size_t i = 0; i < graph->states().size(); ++i) {
        const State& state = graph->states()[i];
        const Tensor& tensor = state.data.tensor;
        if (!is_float(tensor.dtype)) continue;
        const auto [entry, is_new] = known.try_emplace(
            {tensor.data, tensor.dtype, {tensor.shape.begin(), tensor.shape.end()}},
            weights.size());
        if (is_new) {
          weights.push_back({state.name, "", state.data, {}, {}});
          if (!all_ && tensor.count() < options_.least) left.insert(entry->second);
        }
        Weight& weight = weights[entry->second];
        weight.states.emplace_back(graph, static_cast<int32_t>(i));
        if (is_kept(state.name) || changed[i] ||
            std::any_of(state.aliases.begin(), state.aliases.end(),
                        [&](const std::string& alias) { return is_kept(alias); }))
          left.insert(entry->second);
        if (!left.contains(entry->second) && !follow(*graph, state.value, weight))
          left.insert(entry->second);
      }
    }
    std::vector<Weight> found;
    for (size_t i = 0; i < weights.size(); ++i)
      if (!left.contains(i) && shrinks(weights[i])) found.push_back(std::move(weights[i]));
    return found;
  }

 private:
  // The readers of a value: node indices and input positions.
  using Users = std::vector<std::vector<std::pair<size_t, size_t>>>;

  void add(Graph& graph) {
    graphs_.push_back(&graph);
    Users users(static_cast<size_t>(graph.value_count()));
    for (size_t n = 0; n < graph.nodes().size(); ++n)
      for (size_t i = 0; i < graph.nodes()[n].inputs.size(); ++i)
        if (const ValueId id = graph.nodes()[n].inputs[i]; id != kNoValue)
          users[static_cast<size_t>(id)].emplace_back(n, i);
    users_.emplace(&graph, std::move(users));
    for (const Node& node : graph.nodes())
      for (const auto& body : node.subgraphs) add(*body);
  }

  bool is_kept(std::string_view name) const {
    return std::any_of(options_.keep.begin(), options_.keep.end(),
                       [&](const std::string& path) { return is_below(name, path); });
  }
  // Whether quantizing saves more than the scales need.
  bool shrinks(const Weight& weight) const {
    if (weight.blocks.shape.rank() == 0) return false;
    if (all_) return true;
    const Tensor& tensor = weight.data.tensor;
    const int64_t levels = weight.blocks.levels(options_.bits).count();
    const int64_t scale = tensor.dtype == f64 ? 8 : 4;
    return levels + weight.blocks.count() * scale < tensor.bytes();
  }

  // Searches for readers; the first one determines the blocks. Returns false if a reader must be
  // kept in floats.
  bool follow(Graph& graph, ValueId state, Weight& weight) const {
    const Sizes& shape = weight.data.tensor.shape;
    std::vector<Seen> seen = {{&graph, state, {shape, contiguous_strides(shape)}}};
    for (size_t at = 0; at < seen.size(); ++at) {
      const Seen from = seen[at];
      for (const auto& [n, i] : users_.at(from.graph)[static_cast<size_t>(from.id)]) {
        const Node& node = from.graph->nodes()[n];
        const Reader* const row = reader(node, static_cast<int>(i));
        if (row != nullptr && is_kept(node.origin.module)) return false;
        if (row != nullptr && weight.blocks.shape.rank() == 0) {
          weight.blocks =
              blocks_for(shape, from.look, row->shared(node, from.look.shape), options_.group);
          weight.module_path = node.origin.module;
        }
        if (row == nullptr) look_further(from, node, i, seen);
      }
    }
    return true;
  }

  static void look_further(const Seen& from, const Node& node, size_t input,
                           std::vector<Seen>& seen) {
    if (!node.subgraphs.empty()) {  // input 0 is the condition, not a weight
      for (const auto& body : node.subgraphs)
        if (input > 0 && input - 1 < body->inputs().size())
          seen.push_back({body.get(), body->inputs()[input - 1], from.look});
      return;
    }
    const ValueId id = node.outputs[0];
    const TensorType& type = from.graph->value_info(id).type;
    if (node.op->name() == "cast" && is_float(type.dtype))
      seen.push_back({from.graph, id, from.look});
    if (node.op->def.view == nullptr || !is_float(type.dtype) || !is_constant(type.shape) ||
        std::any_of(node.attrs.begin(), node.attrs.end(), has_symbol))
      return;
    const Result<Sizes> sizes = evaluate(type.shape, Bindings());
    if (!sizes.ok()) return;
    ViewContext view(AttrReader(node.op, node.attrs), from.look.shape, from.look.strides, *sizes);
    if (node.op->def.view(view)) seen.push_back({from.graph, id, {*sizes, view.out_strides()}});
  }

  const QuantizeOptions& options_;
  bool all_ = false;
  std::vector<Graph*> graphs_;
  std::map<const Graph*, Users> users_;
};

}  // namespace

bool is_any_named(std::span<Graph* const> graphs, std::string_view path) {
  for (const Graph* graph : graphs) {
    for (const State& state : graph->states()) {
      if (is_below(state.name, path)) return true;
      for (const std::string& alias : state.aliases)
        if (is_below(alias, path)) return true;
    }
    for (const Node& node : graph->nodes()) {
      if (is_below(node.origin.module, path)) return true;
      for (const auto& body : node.subgraphs) {
        Graph* const bodies[] = {body.get()};
        if (is_any_named(bodies, path)) return true;
      }
    }
  }
  return false;
}

Result<std::vector<Weight>> find_weights(std::span<Graph* const> graphs,
                                         const QuantizeOptions& options, bool all) {
  HG_CHECK(options.bits == 8 || options.bits == 4, "quantize: `bits` is ", options.bits,
           ", but weights have 8 or 4");
  HG_CHECK(options.group >= 0, "quantize: `group` is ", options.group, ", which is negative");
  HG_CHECK(options.least >= 0, "quantize: `least` is ", options.least, ", which is negative");
  for (const std::string& keep : options.keep)
    HG_CHECK(is_any_named(graphs, keep), "quantize: `keep` names '", keep,
             "', which is neither a state nor a module of the model");
  return Finder(graphs, options, all).find();
}

}  // namespace hg
