// SPDX-License-Identifier: Apache-2.0
// Lets products, 1x1 convolutions, recurrent layers and embeddings read the levels of a quantized
// weight. Removes the nodes that hg::quantize writes to widen it (lib/quantize/rounding.h), if no
// other node reads the widened weight.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "lib/compile/passes.h"
#include "lib/table/holds.h"
#include "lib/table/packing.h"

namespace hg {
namespace {

// A matrix of levels * scales + offsets. Scales and offsets have the blocks of the dim `split`
// along the same dim.
struct Quantized {
  ValueId levels = kNoValue, scales = kNoValue, offsets = kNoValue;
  int packed = -1;  // the dim along which each byte holds two halves; -1: 8-bit levels
  int split = -1;   // the dim along which `group` neighbors share a scale; -1: none
  int64_t group = 1;
  Sizes shape;         // of the weight, without the `ones`
  int ones = 0;        // last dims of the weight: the sizes of a kernel of one pixel
  Sizes scales_shape;  // one number per block, or 1 if all of a dim share one
};

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
      : graph_(graph), context_(context), users_(static_cast<size_t>(graph.value_count())) {
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
      constexpr std::string_view kLast[] = {"mul", "add", "reshape"};
      if (std::ranges::find(kLast, node.op->name()) == std::end(kLast)) continue;
      const std::optional<Quantized> found = quantized(node.outputs[0]);
      std::map<size_t, Use> readers;  // by node
      if (found && collect(*found, node.outputs[0], false, readers) && is_product(readers))
        for (const auto& [n, use] : readers)
          products_[graph_.nodes()[n].outputs[0]] = {*found, use};
    }
    if (products_.empty()) return {};
    HG_TRY(rewrite(graph_, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
      const auto product = products_.find(node.outputs[0]);
      if (product == products_.end()) return std::optional<std::vector<Value>>();
      return std::optional(replaced(Node(node), product->second.first, product->second.second));
    }));
    HG_TRY(graph_.status());
    remove_dead_nodes(graph_);
    return {};
  }

 private:
  const Node* producer(ValueId id) const {
    const int32_t at = id == kNoValue ? -1 : graph_.value_info(id).node;
    return at < 0 ? nullptr : &graph_.nodes()[static_cast<size_t>(at)];
  }
  const Node* producer(ValueId id, std::string_view op) const {
    const Node* node = producer(id);
    return node != nullptr && node->op->name() == op ? node : nullptr;
  }
  const Tensor* constant(ValueId id) const {
    const TensorData* data = fixed_data(graph_, context_, id);
    return data == nullptr ? nullptr : &data->tensor;
  }
  // The sizes without the last `ones`, which must be 1.
  std::optional<Sizes> sizes(ValueId id, int ones) const {
    const TensorType& type = graph_.value_info(id).type;
    if (!is_constant(type.shape) || type.rank() < ones) return {};
    const int rank = type.rank() - ones;
    Sizes out;
    for (int d = 0; d < type.rank(); ++d) {
      const int64_t size = type.shape[static_cast<size_t>(d)].constant();
      if (d >= rank && size != 1) return {};
      if (d < rank) out.push_back(size);
    }
    return out;
  }
  // Whether the value depends only on constants, through ops that compute scales.
  bool is_fixed(ValueId id) const {
    if (id == kNoValue || constant(id) != nullptr) return id != kNoValue;
    const Node* node = producer(id);
    constexpr std::string_view kOps[] = {"cast", "reshape", "mul", "add", "sub", "neg"};
    return node != nullptr && std::ranges::find(kOps, node->op->name()) != std::end(kOps) &&
           std::ranges::all_of(node->inputs, [this](ValueId input) { return is_fixed(input); });
  }
  // The shape of f32 scales, which `fold` computes unless they are a state.
  std::optional<Sizes> scales_of(ValueId id, int ones) const {
    if (graph_.value_info(id).type.dtype != f32 || !is_fixed(id)) return {};
    return sizes(id, ones);
  }
  int64_t integer(const Node& node, std::string_view name) const {
    const Dim value = AttrReader(node.op, node.attrs).integer(name);
    return value.is_constant() ? value.constant() : -1;
  }

  bool is_four(ValueId id) const {
    const Tensor* four = constant(id);
    return four != nullptr && four->dtype == i8 && four->count() == 1 &&
           *four->as<const int8_t>() == 4;
  }

  // cast(levels), or for 4 bits cast([slice](concat({(x << 4) >> 4, x >> 4}))), f32[shape]
  bool levels_of(ValueId id, const Sizes& shape, Quantized& q) const {
    const Node* cast = producer(id, "cast");
    if (cast == nullptr || graph_.value_info(id).type.dtype != f32) return false;
    ValueId from = cast->inputs[0];
    if (const Tensor* levels = constant(from)) {
      q.levels = from;
      return levels->dtype == i8 && sizes(from, q.ones) == shape;
    }
    const Node* slice = producer(from, "slice");
    if (slice != nullptr) from = slice->inputs[0];
    const Node* concat = producer(from, "concat");
    if (concat == nullptr || concat->inputs.size() != 2) return false;
    const int64_t dim = integer(*concat, "dim");
    const Node *low = producer(concat->inputs[0], "bitwise_right_shift"),
               *high = producer(concat->inputs[1], "bitwise_right_shift");
    if (low == nullptr || high == nullptr || dim < 0 || dim > 1) return false;
    const Node* moved = producer(low->inputs[0], "bitwise_left_shift");
    if (moved == nullptr || !is_four(moved->inputs[1]) || !is_four(low->inputs[1]) ||
        !is_four(high->inputs[1]) || moved->inputs[0] != high->inputs[0])
      return false;
    const Tensor* bytes = constant(high->inputs[0]);
    if (bytes == nullptr || bytes->dtype != i8) return false;
    Sizes packed = shape;
    const int d = static_cast<int>(dim);
    packed[d] = (packed[d] + 1) / 2;
    if (sizes(high->inputs[0], q.ones) != packed) return false;
    if (slice != nullptr && (integer(*slice, "dim") != dim || integer(*slice, "start") != 0 ||
                             integer(*slice, "step") != 1 || integer(*slice, "end") != shape[d]))
      return false;
    if ((slice != nullptr) != (shape[d] % 2 != 0)) return false;
    q.levels = high->inputs[0];
    q.packed = d;
    return true;
  }

  // The product in product + offsets, where the offsets are fixed and have the shape of the
  // product's scales; or in the product alone.
  const Node* product_of(ValueId id, Quantized& q) const {
    if (const Node* add = producer(id, "add")) {
      const Node* mul = producer(add->inputs[0], "mul");
      if (mul == nullptr || scales_of(mul->inputs[1], q.ones) != scales_of(add->inputs[1], q.ones))
        return nullptr;
      q.offsets = add->inputs[1];
      return mul;
    }
    return producer(id, "mul");
  }

  // levels * scales + offsets: a scale per row, column or matrix, or per block of a dim.
  std::optional<Quantized> quantized(ValueId id) const {
    const TensorType& type = graph_.value_info(id).type;
    Quantized q;
    q.ones = std::max(0, type.rank() - 2);
    const std::optional<Sizes> shape = sizes(id, q.ones);
    if (!shape || shape->rank() != 2 || type.dtype != f32) return {};
    if (const Node* reshape = producer(id, "reshape")) {  // [.., blocks, group, ..] of whole blocks
      const Node* mul = product_of(reshape->inputs[0], q);
      if (mul == nullptr) return {};
      const Node* apart = producer(mul->inputs[0], "reshape");
      const std::optional<Sizes> scales = scales_of(mul->inputs[1], q.ones),
                                 cut = sizes(mul->outputs[0], q.ones);
      if (apart == nullptr || !scales || !cut || cut->rank() != 3 || scales->rank() != 3 ||
          sizes(apart->outputs[0], q.ones) != cut)
        return {};
      const int at = (*cut)[0] == (*shape)[0] && (*scales)[2] == 1 ? 1 : 0;
      q.split = at;
      q.group = (*cut)[at + 1];
      q.scales = mul->inputs[1];
      if (q.group < 1 || (*cut)[at] * q.group != (*shape)[at] || (*scales)[at] != (*cut)[at] ||
          (*scales)[at + 1] != 1 || (*cut)[at == 0 ? 2 : 0] != (*shape)[1 - at] ||
          !spans((*scales)[at == 0 ? 2 : 0], (*shape)[1 - at]) ||
          !levels_of(apart->inputs[0], *shape, q))
        return {};
      q.shape = *shape;
      q.scales_shape = *scales;
      q.scales_shape.erase(at + 1);
      return q;
    }
    const Node* mul = product_of(id, q);
    if (mul == nullptr || !levels_of(mul->inputs[0], *shape, q)) return {};
    if (const std::optional<Sizes> scales = scales_of(mul->inputs[1], q.ones)) {
      q.scales = mul->inputs[1];
      if (scales->rank() != 2) return {};
      for (int d = 0; d < 2; ++d)
        if (!spans((*scales)[d], (*shape)[d])) return {};
      q.shape = *shape;
      q.scales_shape = *scales;
      return q;
    }
    const std::optional<Spread> scales = spread(mul->inputs[1], *shape, q.ones);
    if (!scales) return {};
    if (q.offsets != kNoValue) {
      const std::optional<Spread> offsets = spread(q.offsets, *shape, q.ones);
      if (!offsets || offsets->split != scales->split || offsets->group != scales->group ||
          !(offsets->shape == scales->shape))
        return {};
      q.offsets = offsets->from;
    }
    q.split = scales->split;
    q.group = scales->group;
    q.scales = scales->from;
    q.shape = *shape;
    q.scales_shape = scales->shape;
    q.scales_shape.erase(q.split + 1);
    return q;
  }

  // One number per block of the dim `split`, whose last block is cut:
  // slice(reshape(expand(from, [.., blocks, group, ..])))
  struct Spread {
    ValueId from = kNoValue;
    int split = 0;
    int64_t group = 1;
    Sizes shape;  // of `from`
  };
  std::optional<Spread> spread(ValueId id, const Sizes& shape, int ones) const {
    const Node* slice = producer(id, "slice");
    const Node* whole = slice ? producer(slice->inputs[0], "reshape") : nullptr;
    const Node* expand = whole ? producer(whole->inputs[0], "expand") : nullptr;
    const std::optional<Sizes> from = expand ? scales_of(expand->inputs[0], ones) : std::nullopt;
    if (!from || from->rank() != 3) return {};
    const int64_t dim = integer(*slice, "dim");
    if (dim < 0 || dim > 1 || integer(*slice, "start") != 0 || integer(*slice, "step") != 1)
      return {};
    const int at = static_cast<int>(dim);
    const std::optional<Sizes> wide = sizes(expand->outputs[0], ones),
                               all = sizes(whole->outputs[0], ones),
                               cut = sizes(slice->outputs[0], ones);
    if (!wide || !all || !cut || wide->rank() != 3 || all->rank() != 2 || cut->rank() != 2)
      return {};
    const int64_t group = (*wide)[at + 1];
    const int other = at == 0 ? 2 : 0;
    const bool fits = group >= 1 && (*from)[at + 1] == 1 && (*from)[at] == (*wide)[at] &&
                      (*from)[other] == (*wide)[other] && (*all)[at] == (*wide)[at] * group &&
                      (*all)[1 - at] == (*wide)[other] && (*cut)[at] == shape[at] &&
                      spans((*cut)[1 - at], shape[1 - at]) &&
                      (*wide)[at] == (shape[at] + group - 1) / group;
    return fits ? std::optional(Spread{expand->inputs[0], at, group, *from}) : std::nullopt;
  }
  // One per element of a dim, or one for all.
  static bool spans(int64_t scales, int64_t size) { return scales == size || scales == 1; }

  // The input of a recurrent layer without projection that is its recurrent weight, or -1.
  static int recurrent_weight(const Node& node) {
    if constexpr (!kHoldsScan) return -1;
    if (node.op->name() == "lstm_scan")
      return node.inputs.size() > 5 && node.inputs[5] != kNoValue ? -1 : 3;
    return node.op->name() == "gru_scan" || node.op->name() == "rnn_scan" ? 2 : -1;
  }

  // The products and embeddings that read a widened weight; false if another node reads it.
  bool collect(const Quantized& q, ValueId id, bool turned, std::map<size_t, Use>& readers) const {
    if (kept_.contains(id)) return false;
    for (const auto& [n, i] : users_[static_cast<size_t>(id)]) {
      const Node& node = graph_.nodes()[n];
      const TensorType& x = graph_.value_info(node.inputs[0]).type;
      if (q.ones > 0) {
        const bool is_large = q.shape[0] * q.shape[1] >= kLeastConv;
        if (i != 1 || turned || !is_large || !is_pixelwise(node) || !fits(q, 1)) return false;
        readers[n] = {};
        continue;
      }
      if (node.op->name() == "permute") {
        const std::span<const Dim> dims = AttrReader(node.op, node.attrs).integers("dims");
        const bool turns = dims[0] == Dim(1) || dims[0] == Dim(-1);
        if (!collect(q, node.outputs[0], turned != turns, readers)) return false;
        continue;
      }
      if (rows_of(node) && i == 0) {
        if (turned || !fits(q, 1)) return false;
        readers[n] = {};
        continue;
      }
      if (static_cast<int>(i) == recurrent_weight(node)) {
        if (q.shape[0] * q.shape[1] < kLeastRecurrent || !fits(q, turned ? 0 : 1)) return false;
        readers[n] = {turned ? 0 : 1};
        continue;
      }
      const bool is_linear = node.op->name() == "linear";
      if (i != 1 || node.inputs[0] == id || x.rank() < 1 || x.dtype != f32 ||
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
           (node.op->name() == "index_select" && integer(node, "dim") == 0);
  }
  // Scales that vary along the summed dim belong to its groups.
  static bool fits(const Quantized& q, int along) {
    return q.shape[0] > 0 && q.shape[1] > 0 && (q.split < 0 || q.split == along) &&
           (q.split == along || q.scales_shape[along] == 1);
  }

  std::vector<Value> replaced(const Node& node, const Quantized& q, const Use& use) {
    const int along = use.along;
    const bool turned = along == 0;
    graph_.set_origin(node.origin);
    const int64_t n = q.shape[1 - along], k = q.shape[along];
    const auto turn = [&](const Value& matrix) {
      return turned ? graph_.call("permute", {matrix}, {{"dims", {1, 0}}}) : matrix;
    };
    // [n, groups]
    const auto of_groups = [&](ValueId id) {
      if (id == kNoValue) return Value();
      Value value = graph_.value(id);
      if (value.rank() != 2)
        value = graph_.call("reshape", {value}, {{"shape", to_shape(q.scales_shape)}});
      value = turn(value);
      return value.dim(0) == Dim(n)
                 ? value
                 : graph_.call("expand", {value}, {{"shape", {Dim(n), value.dim(1)}}});
    };
    Value bytes = graph_.value(q.levels);
    if (q.ones > 0)
      bytes = graph_.call("reshape", {bytes}, {{"shape", Shape{bytes.dim(0), bytes.dim(1)}}});
    const Value levels = turn(bytes);
    const Value scales = of_groups(q.scales), offsets = of_groups(q.offsets);
    const int64_t group = q.split == along ? q.group : k;
    const Packing packing = q.packed < 0        ? Packing::bytes
                            : q.packed == along ? Packing::halves
                                                : Packing::rows;
    NamedAttrs attrs = {{"packing", std::string(to_string(packing))}, {"group", group}};
    if (rows_of(node)) {
      attrs.push_back({"width", k});
      return {graph_.call("quantized_embedding",
                          {levels, scales, graph_.value(node.inputs[1]), offsets}, attrs)};
    }
    if (use.sums_other) {
      attrs.push_back({"width", k});
      return {graph_.call("quantized_matmul",
                          {graph_.value(node.inputs[0]), levels, scales, offsets}, attrs)};
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
                 ? graph_.value(node.inputs[i])
                 : Value();
    };
    if (is_linear)
      attrs.push_back({"activation", AttrReader(node.op, node.attrs).string("activation")});
    Value x = graph_.value(node.inputs[0]), residual = input(3);
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
    const Value y = graph_.call(is_conv && !is_pixel ? "quantized_conv" : "quantized_linear",
                                {x, levels, scales, offsets, input(2), residual}, attrs);
    return {is_pixel ? graph_.call("reshape", {y}, {{"shape", shape}}) : y};
  }

  Graph& graph_;
  const CompileContext& context_;
  std::vector<std::vector<std::pair<size_t, size_t>>> users_;
  std::set<ValueId> kept_;
  std::map<ValueId, std::pair<Quantized, Use>> products_;
};

}  // namespace

Status read_low_bits(Graph& graph, const CompileContext& context) {
  return Reader(graph, context).run();
}

}  // namespace hg
