// SPDX-License-Identifier: Apache-2.0
// Lets products, 1x1 convolutions, recurrent layers and embeddings read the levels of a quantized
// weight. Removes the nodes that widen the weight (lib/compile/levels.h) if no other node reads
// them, and the nodes that scale a product of levels.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "lib/compile/levels.h"
#include "lib/table/holds.h"
#include "lib/table/packing.h"

namespace hg {
namespace {

constexpr bool kHoldsMatmul = holds_op("quantized_matmul");
constexpr bool kHoldsConv = holds_op("quantized_conv");
constexpr bool kHoldsScan = holds_op("quantized_scan");

// Elements of a recurrent weight from which on levels are faster than floats: these no longer stay
// in the second-level cache from step to step.
constexpr int64_t kLeastRecurrent = 3 << 17;
// Elements of the weight of a convolution that are worth keeping as levels: floats are faster.
constexpr int64_t kLeastConv = 1 << 14;

// How a node reads the weight: which dim its scales are along, and whether it sums over the other.
struct Use {
  int along = 1;
  bool sums_other = false;
};

class Reader {
 public:
  Reader(Graph& graph, const CompileContext& context)
      : graph_(graph),
        context_(context),
        read_(graph, context),
        users_(static_cast<size_t>(graph.value_count())) {
    const std::vector<Node>& nodes = graph.nodes();
    for (size_t n = 0; n < nodes.size(); ++n)
      for (size_t i = 0; i < nodes[n].inputs.size(); ++i)
        if (nodes[n].inputs[i] != kNoValue)
          users_[static_cast<size_t>(nodes[n].inputs[i])].push_back({n, i});
    for (const auto& [name, id] : graph.outputs()) kept_.insert(id);
    for (const auto& [target, source] : graph.assignments()) kept_.insert(source);
  }

  Status run() {
    for (const Node& node : graph_.nodes()) {
      constexpr std::string_view kLast[] = {"mul", "add", "reshape", "cast"};
      if (std::ranges::find(kLast, node.op->name()) == std::end(kLast)) continue;
      const std::optional<WeightLevels> found = read_.weight(node.outputs[0]);
      std::map<size_t, Use> readers;  // by node
      if (found && collect(*found, node.outputs[0], false, readers) && is_product(readers))
        for (const auto& [reader, use] : readers) {
          const ValueId product = graph_.nodes()[reader].outputs[0];
          products_[product] = {*found, use, product};
        }
      if (node.op->name() == "mul") find_scaled(node);
    }
    if (products_.empty()) return {};
    std::map<ValueId, Node> unscaled;  // products that the replaced nodes scale
    for (const auto& [id, product] : products_)
      if (product.of != id) unscaled[product.of];
    HG_TRY(rewrite(graph_, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
      if (const auto at = unscaled.find(node.outputs[0]); at != unscaled.end()) at->second = node;
      const auto found = products_.find(node.outputs[0]);
      if (found == products_.end()) return std::optional<std::vector<Value>>();
      const auto& [levels, use, of] = found->second;
      return std::optional(
          replaced(of == found->first ? Node(node) : unscaled.at(of), levels, use));
    }));
    HG_TRY(graph_.status());
    remove_dead_nodes(graph_);
    return {};
  }

 private:
  // Remembers product(x, levels) * scales, one per column of the product.
  void find_scaled(const Node& mul) {
    for (const size_t at : {size_t{0}, size_t{1}}) {
      const Node* product = read_.producer(mul.inputs[at], "matmul");
      if (product == nullptr) product = read_.producer(mul.inputs[at], "linear");
      const ValueId scales = mul.inputs[1 - at];
      if (product == nullptr || !is_alone(product->outputs[0]) || !is_plain(*product) ||
          !read_.is_fixed(scales) || product->inputs[0] == product->inputs[1])
        continue;
      bool turned = false;
      const std::optional<WeightLevels> found = unscaled(product->inputs[1], turned);
      const TensorType& y = graph_.value_info(product->outputs[0]).type;
      if (!found || graph_.value_info(product->inputs[0]).type.dtype != found->dtype ||
          !(graph_.value_info(mul.outputs[0]).type == y))
        continue;
      WeightLevels q = *found;
      // linear sums over the last dim of its weight, matmul over the first.
      const int summed = (product->op->name() == "linear") == turned ? 0 : 1;
      const Shape& shape = graph_.value_info(scales).type.shape;
      const Dim columns = shape.empty() ? Dim(1) : shape.back();
      const bool is_row = std::all_of(shape.begin(), shape.end() - (shape.empty() ? 0 : 1),
                                      [](const Dim& size) { return size == Dim(1); });
      if (!is_row || !(columns == Dim(1) || columns == Dim(q.shape[1 - summed]))) continue;
      q.scales = {scales, {1, 1}};
      q.scales.blocks[1 - summed] = columns.constant();
      if (fits(q, summed)) products_[mul.outputs[0]] = {q, {summed}, product->outputs[0]};
    }
  }
  bool is_alone(ValueId id) const {
    return !kept_.contains(id) && users_[static_cast<size_t>(id)].size() == 1;
  }
  // WeightLevels in floats that nothing else reads, transposed or not.
  std::optional<WeightLevels> unscaled(ValueId id, bool& turned) const {
    const Node* permute = read_.producer(id, "permute");
    while (permute != nullptr && is_alone(id)) {
      if (read_.turns(*permute)) turned = !turned;
      id = permute->inputs[0];
      permute = read_.producer(id, "permute");
    }
    return is_alone(id) ? read_.unscaled(id, turned) : std::nullopt;
  }

  // The input of a recurrent layer without projection that is its recurrent weight, or -1.
  static int recurrent_weight(const Node& node) {
    if constexpr (!kHoldsScan) return -1;
    if (node.op->name() == "lstm_scan")
      return node.inputs.size() > 5 && node.inputs[5] != kNoValue ? -1 : 3;
    return node.op->name() == "gru_scan" || node.op->name() == "rnn_scan" ? 2 : -1;
  }

  // The products and embeddings that read a widened weight; false if another node reads it.
  bool collect(const WeightLevels& q, ValueId id, bool turned,
               std::map<size_t, Use>& readers) const {
    if (kept_.contains(id)) return false;
    for (const auto& [n, i] : users_[static_cast<size_t>(id)]) {
      const Node& node = graph_.nodes()[n];
      const TensorType& x = graph_.value_info(node.inputs[0]).type;
      if (q.ones > 0) {
        const bool is_large = q.shape[0] * q.shape[1] >= kLeastConv;
        if (i != 1 || turned || !is_large || q.dtype != f32 || !is_pixelwise(node) || !fits(q, 1))
          return false;
        readers[n] = {};
        continue;
      }
      if (node.op->name() == "permute") {
        if (!collect(q, node.outputs[0], turned != read_.turns(node), readers)) return false;
        continue;
      }
      if (rows_of(node) && i == 0) {
        if (turned || !fits(q, 1)) return false;
        readers[n] = {};
        continue;
      }
      if (static_cast<int>(i) == recurrent_weight(node)) {
        if (q.dtype != f32 || q.shape[0] * q.shape[1] < kLeastRecurrent || !fits(q, turned ? 0 : 1))
          return false;
        readers[n] = {turned ? 0 : 1};
        continue;
      }
      const bool is_linear = node.op->name() == "linear";
      if (i != 1 || node.inputs[0] == id || x.rank() < 1 || x.dtype != q.dtype ||
          (!is_linear && node.op->name() != "matmul"))
        return false;
      // linear sums over the last dim of its weight, matmul over the first.
      const int summed = is_linear == turned ? 0 : 1;
      const bool sums_other = !fits(q, summed);
      if (sums_other && (!kHoldsMatmul || !fits(q, 1 - summed) || !is_plain(node))) return false;
      readers[n] = {sums_other ? 1 - summed : summed, sums_other};
    }
    return true;
  }
  // Whether a reader uses the levels as they are laid out. If only gradients do, floats are faster.
  static bool is_product(const std::map<size_t, Use>& readers) {
    return std::any_of(readers.begin(), readers.end(),
                       [](const auto& reader) { return !reader.second.sums_other; });
  }
  // Whether the node is a convolution that computes each pixel from one, without rounding.
  bool is_pixelwise(const Node& node) const {
    if (!kHoldsConv || node.op->name() != "conv" || node.inputs[0] == node.inputs[1] ||
        context_.options->device != Device::cpu || context_.options->precision != Precision::f32)
      return false;
    const AttrReader attrs(node.op, node.attrs);
    const auto all = [&](std::string_view name, int64_t number) {
      const std::span<const Dim> dims = attrs.integers(name);
      return std::all_of(dims.begin(), dims.end(), [&](const Dim& d) { return d == Dim(number); });
    };
    return !attrs.flag("transposed") && attrs.integer("groups") == Dim(1) && all("stride", 1) &&
           all("padding", 0);
  }
  // Whether the node is a product and nothing else.
  bool is_plain(const Node& node) const {
    return node.op->name() == "matmul" ||
           (std::all_of(node.inputs.begin() + 2, node.inputs.end(),
                        [](ValueId id) { return id == kNoValue; }) &&
            AttrReader(node.op, node.attrs).string("activation") == "none");
  }
  // Whether the node selects rows of its first input.
  bool rows_of(const Node& node) const {
    return node.op->name() == "embedding" ||
           (node.op->name() == "index_select" && read_.integer(node, "dim") == 0);
  }
  // Scales that vary along the summed dim belong to its groups.
  static bool fits(const WeightLevels& q, int along) {
    return q.shape[0] > 0 && q.shape[1] > 0 && (q.split < 0 || q.split == along) &&
           (q.split == along || q.blocks()[along] == 1);
  }

  Value as(const Value& v, DType dtype) {
    return !v || v.dtype() == dtype ? v : graph_.call("cast", {v}, {{"dtype", dtype}});
  }
  // Fixed numbers, [blocks of rows, blocks of columns].
  Value numbers(const WeightLevels::Numbers& given) {
    if (given.id == kNoValue) return Value();
    const Value value = graph_.value(given.id);
    const Shape shape = to_shape(given.blocks);
    return value.shape() == shape ? value : graph_.call("reshape", {value}, {{"shape", shape}});
  }
  // The same in f32.
  Value floats(const WeightLevels::Numbers& given) { return as(numbers(given), f32); }
  // The scales: f16 if they are stored so and the CPU reads them, else f32.
  Value scales_of(const WeightLevels::Numbers& given) {
    if (context_.options->device != Device::cpu) return floats(given);
    WeightLevels::Numbers stored = given;
    const auto dtype = [&] { return graph_.value_info(stored.id).type.dtype; };
    for (const Node* node; dtype() == f32; stored.id = node->inputs[0]) {
      node = read_.producer(stored.id, "reshape");
      if (node == nullptr) node = read_.producer(stored.id, "cast");
      if (node == nullptr) break;
    }
    return dtype() == f16 ? numbers(stored) : floats(given);
  }
  // What a weight adds to levels * scales.
  Value offsets_of(const WeightLevels& q) {
    Value zeros = floats(q.zeros);
    if (q.is_unsigned) {  // as signed levels
      const Value center = graph_.scalar(128.0, f32);
      zeros = zeros ? graph_.call("sub", {zeros, center}) : graph_.scalar(-128.0, f32);
    }
    Value offsets = floats(q.offsets);
    if (!zeros) return offsets;
    const Value shift = graph_.call("neg", {graph_.call("mul", {zeros, floats(q.scales)})});
    return offsets ? graph_.call("add", {offsets, shift}) : shift;
  }
  std::vector<Value> replaced(const Node& node, const WeightLevels& q, const Use& use) {
    const int along = use.along;
    const bool turned = along == 0;
    graph_.set_origin(node.origin);
    const int64_t n = q.shape[1 - along], k = q.shape[along];
    const auto turn = [&](const Value& matrix) {
      return turned ? graph_.call("permute", {matrix}, {{"dims", {1, 0}}}) : matrix;
    };
    const Sizes blocks = q.blocks();
    const Shape of_all = {Dim(n), Dim(blocks[along])};  // [n, groups]
    const auto of_groups = [&](Value value) {
      if (!value) return value;
      if (value.rank() == 2) value = turn(value);
      return value.shape() == of_all ? value : graph_.call("expand", {value}, {{"shape", of_all}});
    };
    Value bytes = graph_.value(q.levels);
    if (q.is_unsigned)  // levels - 128
      bytes = as(graph_.call("bitwise_xor", {bytes, graph_.scalar(int64_t{128}, u8)}), i8);
    if (q.ones > 0)
      bytes = graph_.call("reshape", {bytes}, {{"shape", Shape{bytes.dim(0), bytes.dim(1)}}});
    const Value levels = turn(bytes), scales = of_groups(scales_of(q.scales));
    const Value offsets = of_groups(offsets_of(q));
    const int64_t group = q.split == along ? q.group : k;
    const Packing packing = q.packed < 0        ? Packing::bytes
                            : q.packed == along ? Packing::halves
                                                : Packing::rows;
    NamedAttrs attrs = {{"packing", std::string(to_string(packing))}, {"group", group}};
    if (rows_of(node)) {
      attrs.push_back({"width", k});
      return {as(graph_.call("quantized_embedding",
                             {levels, scales, graph_.value(node.inputs[1]), offsets}, attrs),
                 q.dtype)};
    }
    if (use.sums_other) {
      attrs.push_back({"width", k});
      return {
          as(graph_.call("quantized_matmul",
                         {as(graph_.value(node.inputs[0]), f32), levels, scales, offsets}, attrs),
             q.dtype)};
    }
    if (const int weight = recurrent_weight(node); weight > 0) {
      const AttrReader read(node.op, node.attrs);
      const size_t bias = static_cast<size_t>(weight) + 1;
      const std::string cell = node.op->name() == "lstm_scan"  ? "lstm"
                               : node.op->name() == "gru_scan" ? "gru"
                                                               : read.string("nonlinearity");
      attrs.insert(attrs.end(), {{"cell", cell}, {"reverse", read.flag("reverse")}});
      std::vector<Value> all = graph_.calls(
          "quantized_scan",
          {graph_.value(node.inputs[0]), levels, scales, offsets, graph_.value(node.inputs[1]),
           bias < node.inputs.size() && node.inputs[bias] != kNoValue
               ? graph_.value(node.inputs[bias])
               : Value(),
           cell == "lstm" ? graph_.value(node.inputs[2]) : Value()},
          attrs);
      all.resize(node.outputs.size());
      return all;
    }
    const bool is_conv = q.ones > 0;
    const bool is_linear = is_conv || node.op->name() == "linear";
    const auto input = [&](size_t i) {
      return is_linear && i < node.inputs.size() && node.inputs[i] != kNoValue
                 ? as(graph_.value(node.inputs[i]), f32)
                 : Value();
    };
    if (is_linear)
      attrs.push_back({"activation", AttrReader(node.op, node.attrs).string("activation")});
    if (q.dtype != f32) attrs.push_back({"x_dtype", std::string(to_string(q.dtype))});
    Value x = as(graph_.value(node.inputs[0]), f32), residual = input(3);
    const Shape shape = graph_.value_info(node.outputs[0]).type.shape;
    const bool is_pixel = is_conv && std::all_of(shape.begin() + 2, shape.end(),
                                                 [](const Dim& size) { return size == Dim(1); });
    if (is_pixel) {  // a product
      const auto as_matrix = [&](const Value& v) {
        return graph_.call("reshape", {v}, {{"shape", Shape{v.dim(0), v.dim(1)}}});
      };
      x = as_matrix(x);
      if (residual) residual = as_matrix(residual);
    }
    const Value y = as(graph_.call(is_conv && !is_pixel ? "quantized_conv" : "quantized_linear",
                                   {x, levels, scales, offsets, input(2), residual}, attrs),
                       q.dtype);
    return {is_pixel ? graph_.call("reshape", {y}, {{"shape", shape}}) : y};
  }

  // A product with a weight. `of` is its result before scales, or the result itself.
  struct Product {
    WeightLevels levels;
    Use use;
    ValueId of = kNoValue;
  };

  Graph& graph_;
  const CompileContext& context_;
  LevelReader read_;
  std::vector<std::vector<std::pair<size_t, size_t>>> users_;
  std::set<ValueId> kept_;
  std::map<ValueId, Product> products_;
};

}  // namespace

Status read_low_bits(Graph& graph, const CompileContext& context) {
  return Reader(graph, context).run();
}

}  // namespace hg
