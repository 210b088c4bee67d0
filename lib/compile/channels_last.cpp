// SPDX-License-Identifier: Apache-2.0
// Runs regions of depthwise and 1x1 convolutions, and the elementwise ops between them, with
// channels as the last dim. 1x1 convolutions are then linear layers, and depthwise convolutions use
// vectors of channels. Images are permuted at the edges of a region. A region is converted only if
// its depthwise convolutions compute more elements than cross its edges. Convolutions with few
// input channels, such as the first one of a model, write their result in this layout.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "lib/compile/passes.h"
#include "lib/graph/disjoint_sets.h"

namespace hg {
namespace {

using Dims = std::vector<Dim>;
using Replacement = std::optional<std::vector<Value>>;

// As the attribute of permute.
Dims nhwc_dims() { return {0, 2, 3, 1}; }
Dims nchw_dims() { return {0, 3, 1, 2}; }

enum class Kind { other, entry, pointwise, depthwise, elementwise, mean };

constexpr int64_t kFewChannels = 4;  // of an image that stays nchw before its convolution

class ChannelsLast {
 public:
  ChannelsLast(Graph& graph, const CompileContext& context) : graph_(graph), context_(context) {}

  Status run() {
    choose();
    if (chosen_.empty()) return {};
    HG_TRY(rewrite(graph_, [&](const Node& node) { return visit(node); }));
    remove_dead_nodes(graph_);
    return {};
  }

 private:
  static AttrReader attrs_of(const Node& node) { return AttrReader(node.op, node.attrs); }
  const TensorType& type(ValueId id) const { return graph_.value_info(id).type; }

  static bool all(std::span<const Dim> dims, int64_t value) {
    return std::all_of(dims.begin(), dims.end(), [&](const Dim& d) { return d == Dim(value); });
  }

  // f32 [n, c, h, w] of known size, except n.
  bool is_image(ValueId id) const {
    const TensorType& t = type(id);
    return t.dtype == f32 && t.rank() == 4 &&
           std::all_of(t.shape.begin() + 1, t.shape.end(),
                       [](const Dim& d) { return d.is_constant(); });
  }
  // The number of elements stays the same, in the same order, with the channels last.
  bool is_pixel(ValueId id) const { return all(std::span(type(id).shape).subspan(2), 1); }
  // Per image.
  int64_t elements(ValueId id) const {
    int64_t count = 1;
    for (int i = 1; i < 4; ++i) count *= type(id).shape[i].constant();
    return count;
  }

  Kind kind_of(const Node& node) const {
    if (node.outputs.size() != 1 || node.inputs.empty()) return Kind::other;
    const ValueId y = node.outputs[0];
    const std::string_view op = node.op->name();
    if (op == "mean" || op == "adaptive_avg_pool")
      return is_image(node.inputs[0]) && is_mean(node) ? Kind::mean : Kind::other;
    if (!is_image(y)) return Kind::other;
    if (op == "conv") return is_image(node.inputs[0]) ? kind_of_conv(node) : Kind::other;
    return is_elementwise(node, context_) && suits(node) ? Kind::elementwise : Kind::other;
  }

  Kind kind_of_conv(const Node& conv) const {
    const AttrReader attrs = attrs_of(conv);
    const Shape &x = type(conv.inputs[0]).shape, &weight = type(conv.inputs[1]).shape;
    if (attrs.flag("transposed")) return Kind::other;
    const Dim groups = attrs.integer("groups");
    if (groups == Dim(1)) {
      if (weight[2] == Dim(1) && weight[3] == Dim(1) && all(attrs.integers("stride"), 1) &&
          all(attrs.integers("padding"), 0))
        return Kind::pointwise;
      return x[1].constant() <= kFewChannels && conv.inputs[3] == kNoValue ? Kind::entry
                                                                           : Kind::other;
    }
    return groups == x[1] && weight[0] == x[1] ? Kind::depthwise : Kind::other;
  }

  // The mean over each channel.
  bool is_mean(const Node& node) const {
    if (node.op->name() == "adaptive_avg_pool")
      return all(attrs_of(node).integers("output_size"), 1);
    Dims dims;
    for (const Dim& d : attrs_of(node).integers("dim"))
      dims.push_back(d.constant() < 0 ? d + Dim(4) : d);
    return dims.size() == 2 && std::min(dims[0].constant(), dims[1].constant()) == 2 &&
           std::max(dims[0].constant(), dims[1].constant()) == 3;
  }

  // Operands that broadcast to the images also broadcast with the channels last.
  bool suits(const Node& node) const {
    bool has_image = false;
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      const int rank = type(id).rank();
      if (rank == 0) continue;
      if (rank == 4 && is_image(id)) {
        has_image |= !is_pixel(id);
        continue;
      }
      if (rank != 3 || !all(std::span(type(id).shape).subspan(1), 1)) return false;
    }
    return has_image || is_pixel(node.outputs[0]);
  }

  static bool is_permute(const Node& node, const Dims& dims) {
    if (node.op->name() != "permute") return false;
    const std::span<const Dim> given = attrs_of(node).integers("dims");
    return std::equal(given.begin(), given.end(), dims.begin(), dims.end());
  }

  // The nodes of each region that is worth converting.
  void choose() {
    const std::vector<Node>& nodes = graph_.nodes();
    std::vector<Kind> kinds;
    for (const Node& node : nodes) kinds.push_back(kind_of(node));
    DisjointSets regions(nodes.size());
    const auto producer = [&](ValueId id) -> int64_t { return graph_.value_info(id).node; };
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (kinds[i] == Kind::other) continue;
      for (const ValueId id : images_of(nodes[i])) {
        const int64_t from = producer(id);
        if (from >= 0 && kinds[from] != Kind::other)
          regions.join(regions.root(static_cast<size_t>(from)), regions.root(i));
      }
    }
    std::map<size_t, int64_t> worth;  // elements of depthwise convolutions, less those at edges
    std::vector<int> outside = use_counts(graph_);
    std::set<std::pair<size_t, ValueId>> entered;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const bool is_nhwc = is_permute(nodes[i], nhwc_dims());
      for (const ValueId id : nodes[i].inputs)
        if (id != kNoValue && (reads_nhwc(kinds[i]) || is_nhwc)) --outside[id];
      if (kinds[i] == Kind::other) continue;
      const size_t region = regions.root(i);
      if (kinds[i] == Kind::depthwise) worth[region] += elements(nodes[i].outputs[0]);
      for (const ValueId id : images_of(nodes[i])) {
        const int64_t from = producer(id);
        const bool is_free =
            is_pixel(id) ||
            (from >= 0 && (kinds[from] != Kind::other || is_permute(nodes[from], nchw_dims())));
        if (!is_free && entered.insert({region, id}).second) worth[region] -= elements(id);
      }
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (kinds[i] == Kind::other) continue;
      const ValueId y = nodes[i].outputs[0];
      if (is_image(y) && !is_pixel(y) && outside[y] > 0) worth[regions.root(i)] -= elements(y);
    }
    for (size_t i = 0; i < nodes.size(); ++i)
      if (kinds[i] != Kind::other && worth[regions.root(i)] > 0)
        chosen_.emplace(nodes[i].outputs[0], kinds[i]);
  }

  // Whether nodes of this kind read their images with the channels last.
  static bool reads_nhwc(Kind kind) { return kind != Kind::other && kind != Kind::entry; }

  // The inputs that are permuted: for convolutions, x and the residual.
  std::vector<ValueId> images_of(const Node& node) const {
    std::vector<ValueId> images;
    if (!reads_nhwc(kind_of(node))) return images;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool is_weight = node.op->name() == "conv" && (i == 1 || i == 2);
      if (node.inputs[i] != kNoValue && !is_weight && is_image(node.inputs[i]))
        images.push_back(node.inputs[i]);
    }
    return images;
  }

  Value reshaped(const Value& x, Shape shape) {
    return graph_.call("reshape", {x}, {{"shape", std::move(shape)}});
  }

  // The weight [o, c, 1, 1] as [o, c]; if it is constant, a constant that shares its memory.
  Value matrix(ValueId weight) {
    const Value w = graph_.value(weight);
    const TensorData* const data = fixed_data(graph_, context_, weight);
    if (data == nullptr) return reshaped(w, {w.dim(0), w.dim(1)});
    TensorData flat = *data;
    flat.tensor = view(data->tensor.data, f32, {data->tensor.shape[0], data->tensor.shape[1]});
    return graph_.constant(std::move(flat), graph_.value_info(weight).name + "_matrix");
  }

  // The value with the channels last.
  Value to_nhwc(ValueId id) {
    if (id == kNoValue) return Value();
    if (const auto known = last_.find(id); known != last_.end()) return graph_.value(known->second);
    const Value x = graph_.value(id);
    Value y = x;
    if (x.rank() == 3)
      y = reshaped(x, {x.dim(0)});
    else if (x.rank() == 4 && is_pixel(id))
      y = reshaped(x, {x.dim(0), Dim(1), Dim(1), x.dim(1)});
    else if (x.rank() == 4)
      y = graph_.call("permute", {x}, {{"dims", nhwc_dims()}});
    last_[id] = y.id();
    return y;
  }
  // The value with the channels in front again, for readers outside the region.
  Value to_nchw(const Value& y) {
    const bool is_pixel = y.dim(1) == Dim(1) && y.dim(2) == Dim(1);
    const Value x = is_pixel ? reshaped(y, {y.dim(0), y.dim(3), Dim(1), Dim(1)})
                             : graph_.call("permute", {y}, {{"dims", nchw_dims()}});
    last_[x.id()] = y.id();
    return x;
  }

  Result<Replacement> visit(const Node& visited) {
    if (is_permute(visited, nchw_dims())) last_[visited.outputs[0]] = visited.inputs[0];
    if (is_permute(visited, nhwc_dims()))
      if (const auto known = last_.find(visited.inputs[0]); known != last_.end())
        return Replacement({graph_.value(known->second)});
    const auto found = chosen_.find(visited.outputs[0]);
    if (found == chosen_.end()) return Replacement();
    const Node node = visited;  // a copy: adding nodes moves the original
    graph_.set_origin(node.origin);
    if (found->second == Kind::mean) {
      const bool keeps = node.op->name() != "mean" || attrs_of(node).flag("keepdim");
      const Value y =
          graph_.call("mean", {to_nhwc(node.inputs[0])}, {{"dim", Dims{1, 2}}, {"keepdim", keeps}});
      return Replacement({keeps ? to_nchw(y) : y});
    }
    if (found->second == Kind::elementwise) {
      std::vector<Value> inputs;
      for (const ValueId id : node.inputs) inputs.push_back(to_nhwc(id));
      return Replacement({to_nchw(graph_.call(node.op->name(), inputs, named_attrs(node)))});
    }
    const AttrReader attrs = attrs_of(node);
    const Value bias = node.inputs[2] == kNoValue ? Value() : graph_.value(node.inputs[2]);
    NamedAttrs kept;
    for (const std::string_view name : {"stride", "padding", "dilation", "activation"})
      kept.push_back({name, attrs.raw(name)});
    if (found->second == Kind::entry)
      return Replacement({to_nchw(
          graph_.call("conv_to_channels_last",
                      {graph_.value(node.inputs[0]), graph_.value(node.inputs[1]), bias}, kept))});
    const Value x = to_nhwc(node.inputs[0]), residual = to_nhwc(node.inputs[3]);
    if (found->second == Kind::pointwise)
      return Replacement({to_nchw(graph_.call("linear", {x, matrix(node.inputs[1]), bias, residual},
                                              {{"activation", attrs.raw("activation")}}))});
    const Value weight = graph_.value(node.inputs[1]);
    return Replacement(
        {to_nchw(graph_.call("conv_channels_last", {x, weight, bias, residual}, kept))});
  }

  Graph& graph_;
  const CompileContext& context_;
  std::unordered_map<ValueId, Kind> chosen_;   // by output
  std::unordered_map<ValueId, ValueId> last_;  // the value with its channels last
};

}  // namespace

Status lay_channels_last(Graph& graph, const CompileContext& context) {
  if (context.options->device != Device::cpu) return {};
  return ChannelsLast(graph, context).run();
}

}  // namespace hg
