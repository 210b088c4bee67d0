// SPDX-License-Identifier: Apache-2.0
// Runs regions of convolutions, and the elementwise ops between them, with channels as the last
// dim. 1x1 convolutions are then linear layers, and depthwise convolutions use vectors of channels.
// Convolutions of 8-bit integers multiply rows where they lie, with AVX-512 VNNI or AMX, and those
// of bf16, or of Precision::bf16, with AMX. Images are permuted at the edges of a region. A region
// is converted only if this costs less than its convolutions gain. Convolutions with few input
// channels, such as the first one of a model, write their result in this layout.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "lib/compile/passes.h"
#include "lib/graph/disjoint_sets.h"
#include "lib/graph/options.h"
#include "lib/platform/instruction_set.h"
#include "lib/table/holds.h"

namespace hg {
namespace {

using Dims = std::vector<Dim>;
using Replacement = std::optional<std::vector<Value>>;

// As the attribute of permute.
Dims nhwc_dims() { return {0, 2, 3, 1}; }
Dims nchw_dims() { return {0, 3, 1, 2}; }

enum class Kind {
  other,
  entry,
  pointwise,
  depthwise,
  elementwise,
  mean,
  dense,
  integer_entry,
  integer,
  concat,
  max_pool
};

// Libraries for some models lack ops that only other processors need.
constexpr bool kHoldsMoves = holds_op("permute") && holds_op("reshape");
constexpr int64_t kFewChannels = 4;  // of an image that stays nchw before its convolution
// Convolutions of rows with fewer channels would fill little of a tile.
constexpr int64_t kLeastRowChannels = 16;
// A convolution of rows gains a part of what it would copy otherwise: its image for each tap.
constexpr int64_t kRowGain = 4;

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

  static bool is_byte(DType dtype) { return dtype == u8 || dtype == i8; }
  // [n, c, h, w] of known size, except n.
  bool is_image(ValueId id) const {
    const TensorType& t = type(id);
    const bool is_kept = t.dtype == DType::bf16 && multiplies_bf16_rows(context_);
    return (t.dtype == f32 || is_kept || is_byte(t.dtype)) && t.rank() == 4 &&
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
    if (op == "quantized_conv") return is_image(node.inputs[0]) ? Kind::pointwise : Kind::other;
    if (op == "conv_integer") return kind_of_integers(node);
    if (op == "max_pool")
      return is_byte(type(y).dtype) || multiplies_rows_of(type(y).dtype) ? Kind::max_pool
                                                                         : Kind::other;
    if (is_byte(type(y).dtype) && op == "concat")
      return attrs_of(node).integer("dim") == Dim(1) ? Kind::concat : Kind::other;
    return is_elementwise(node, context_) && suits(node) ? Kind::elementwise : Kind::other;
  }

  Kind kind_of_conv(const Node& conv) const {
    const AttrReader attrs = attrs_of(conv);
    const Shape &x = type(conv.inputs[0]).shape, &weight = type(conv.inputs[1]).shape;
    if (attrs.flag("transposed")) return Kind::other;
    const Dim groups = attrs.integer("groups");
    if (groups == Dim(1) && multiplies_rows_of(type(conv.inputs[0]).dtype) &&
        !attrs.flag("exact") && fixed_type(graph_, context_, conv.inputs[1]) &&
        weight[0].constant() >= kLeastRowChannels && x[1].constant() >= kLeastRowChannels)
      return Kind::dense;
    if (groups == Dim(1)) {
      if (weight[2] == Dim(1) && weight[3] == Dim(1) && all(attrs.integers("stride"), 1) &&
          all(attrs.integers("padding"), 0))
        return Kind::pointwise;
      return x[1].constant() <= kFewChannels && conv.inputs[3] == kNoValue ? Kind::entry
                                                                           : Kind::other;
    }
    return groups == x[1] && weight[0] == x[1] ? Kind::depthwise : Kind::other;
  }

  Kind kind_of_integers(const Node& conv) const {
    const Shape &x = type(conv.inputs[0]).shape, &weight = type(conv.inputs[1]).shape;
    const bool is_plain = is_image(conv.inputs[0]) && multiplies_rows() &&
                          !context_.options->low_memory &&
                          attrs_of(conv).integer("groups") == Dim(1) && has_signed_weights(conv);
    if (!is_plain || weight[0].constant() < kLeastRowChannels) return Kind::other;
    if (x[1].constant() <= kFewChannels) return Kind::integer_entry;
    return x[1].constant() >= kLeastRowChannels ? Kind::integer : Kind::other;
  }
  // Whether convolutions of this dtype multiply rows of bf16.
  bool multiplies_rows_of(DType dtype) const {
    return multiplies_bf16_rows(context_) &&
           (dtype == DType::bf16 ||
            (dtype == f32 && context_.options->precision == Precision::bf16));
  }
  // Whether products of rows take less time than those of kernel "gemm", which packs images.
  static bool multiplies_rows() {
#if defined(HG_SMALL)
    return false;
#else
    return kHoldsMoves && holds_op("conv_integer_channels_last") &&
           holds_op("conv_integer_to_channels_last") && chosen_isa() >= Isa::avx512_vnni;
#endif
  }

  // Whether the constant weights minus their zero points are i8.
  bool has_signed_weights(const Node& conv) const {
    const TensorData* const weight = fixed_data(graph_, context_, conv.inputs[1]);
    if (weight == nullptr) return false;
    const bool is_signed = weight->tensor.dtype == i8;
    if (conv.inputs[3] == kNoValue) return is_signed;
    const TensorData* const zeros = fixed_data(graph_, context_, conv.inputs[3]);
    if (zeros == nullptr) return false;
    const auto* const begin = zeros->tensor.as<const uint8_t>();
    return std::all_of(begin, begin + zeros->tensor.count(),
                       [&](uint8_t zero) { return zero == (is_signed ? 0 : 128); });
  }

  // How many elements less the node copies, or computes in part of a vector, with channels last.
  int64_t gain_of(const Node& node, Kind kind) const {
    if (kind == Kind::depthwise) return elements(node.outputs[0]);
    if (kind != Kind::integer && kind != Kind::dense) return 0;
    const Shape& weight = type(node.inputs[1]).shape;
    const int64_t copied = elements(node.inputs[0]) * (weight[2] * weight[3]).constant() / kRowGain;
    // Outside of a region, x and y are also cast.
    const bool is_cast = type(node.inputs[0]).dtype == DType::bf16;
    return is_cast ? copied + elements(node.inputs[0]) + elements(node.outputs[0]) : copied;
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
    std::map<size_t, int64_t> worth;  // gains of a region, less the elements at its edges
    std::vector<int> outside = use_counts(graph_);
    std::set<std::pair<size_t, ValueId>> entered;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const bool is_nhwc = is_permute(nodes[i], nhwc_dims());
      for (const ValueId id : nodes[i].inputs)
        if (id != kNoValue && (reads_nhwc(kinds[i]) || is_nhwc)) --outside[id];
      if (kinds[i] == Kind::other) continue;
      const size_t region = regions.root(i);
      worth[region] += gain_of(nodes[i], kinds[i]);
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
    choose_rounded();
  }

  // Finds the results to store in bf16: results of that dtype, and results that only bf16
  // convolutions read.
  void choose_rounded() {
    std::vector<int> others = use_counts(graph_);
    const auto is_dense = [&](const Node& node) {
      const auto found = chosen_.find(node.outputs[0]);
      return found != chosen_.end() && found->second == Kind::dense;
    };
    for (const Node& node : graph_.nodes())
      for (const size_t i : {0, 3})
        if (is_dense(node) && node.inputs[i] != kNoValue) --others[node.inputs[i]];
    for (const Node& node : graph_.nodes())
      if (is_dense(node) &&
          (others[node.outputs[0]] == 0 || type(node.outputs[0]).dtype == DType::bf16))
        rounded_.insert(node.outputs[0]);
  }

  // Whether nodes of this kind read their images with the channels last.
  static bool reads_nhwc(Kind kind) {
    return kind != Kind::other && kind != Kind::entry && kind != Kind::integer_entry;
  }

  // The inputs that are permuted: for convolutions, x and the residual.
  std::vector<ValueId> images_of(const Node& node) const {
    std::vector<ValueId> images;
    if (!reads_nhwc(kind_of(node))) return images;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool is_weight = (node.op->name() == "conv" && (i == 1 || i == 2)) ||
                             (node.op->name() == "conv_integer" && i > 0);
      if (node.inputs[i] != kNoValue && !is_weight && is_image(node.inputs[i]))
        images.push_back(node.inputs[i]);
    }
    return images;
  }

  Value reshaped(const Value& x, Shape shape) {
    return graph_.call("reshape", {x}, {{"shape", std::move(shape)}});
  }

  Value cast(const Value& x, DType dtype) {
    return !x || x.dtype() == dtype ? x : graph_.call("cast", {x}, {{"dtype", dtype}});
  }

  // The weight [o, c, 1, 1] as [o, c]; if it is constant, a constant that shares its memory.
  Value matrix(ValueId weight) {
    const Value w = graph_.value(weight);
    const TensorData* const data = fixed_type(graph_, context_, weight);
    if (data == nullptr) return reshaped(w, {w.dim(0), w.dim(1)});
    TensorData flat = *data;
    flat.tensor =
        view(data->tensor.data, data->tensor.dtype, {data->tensor.shape[0], data->tensor.shape[1]});
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

  // As a pooling of [n, 1, h, w, c] that leaves the last dim as it is.
  Value pooled(const Node& node) {
    const AttrReader attrs = attrs_of(node);
    // Kernels compare f32 in vectors.
    const DType dtype = type(node.outputs[0]).dtype;
    const Value image = to_nhwc(node.inputs[0]);
    const Value x = dtype == DType::bf16 ? cast(image, f32) : image;
    const auto with = [&](const char* name, const Dim& last) {
      const std::span<const Dim> given = attrs.integers(name);
      if (given.empty()) return Dims();
      return Dims{given[0], given.back(), last};
    };
    const Value y =
        graph_.call("max_pool", {reshaped(x, {x.dim(0), Dim(1), x.dim(1), x.dim(2), x.dim(3)})},
                    {{"kernel_size", with("kernel_size", 1)},
                     {"stride", with("stride", 1)},
                     {"padding", with("padding", 0)},
                     {"dilation", with("dilation", 1)},
                     {"ceil_mode", attrs.flag("ceil_mode")}});
    return cast(reshaped(y, {y.dim(0), y.dim(2), y.dim(3), y.dim(4)}), dtype);
  }

  // quantized_linear has the inputs and attributes of quantized_conv.
  Value quantized(const Node& node) {
    std::vector<Value> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      const bool is_image = i == 0 || i == 5;
      inputs.push_back(is_image || id == kNoValue ? to_nhwc(id) : graph_.value(id));
    }
    return graph_.call("quantized_linear", inputs, named_attrs(node));
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
    if (found->second == Kind::max_pool) return Replacement({to_nchw(pooled(node))});
    if (found->second == Kind::concat) {
      std::vector<Value> inputs;
      for (const ValueId id : node.inputs) inputs.push_back(to_nhwc(id));
      return Replacement({to_nchw(graph_.call("concat", inputs, {{"dim", 3}}))});
    }
    if (node.op->name() == "quantized_conv") return Replacement({to_nchw(quantized(node))});
    const AttrReader attrs = attrs_of(node);
    NamedAttrs kept;
    for (const std::string_view name : {"stride", "padding", "dilation"})
      kept.push_back({name, attrs.raw(name)});
    if (found->second == Kind::integer || found->second == Kind::integer_entry) {
      const bool is_entry = found->second == Kind::integer_entry;
      std::vector<Value> inputs = {is_entry ? graph_.value(node.inputs[0])
                                            : to_nhwc(node.inputs[0])};
      for (size_t i = 1; i < node.inputs.size(); ++i)
        inputs.push_back(node.inputs[i] == kNoValue ? Value() : graph_.value(node.inputs[i]));
      return Replacement({to_nchw(
          graph_.call(is_entry ? "conv_integer_to_channels_last" : "conv_integer_channels_last",
                      inputs, kept))});
    }
    kept.push_back({"activation", attrs.raw("activation")});
    const DType dtype = type(node.outputs[0]).dtype;
    if (found->second == Kind::pointwise) {
      const Value bias = node.inputs[2] == kNoValue ? Value() : graph_.value(node.inputs[2]);
      return Replacement({to_nchw(graph_.call(
          "linear",
          {to_nhwc(node.inputs[0]), matrix(node.inputs[1]), bias, to_nhwc(node.inputs[3])},
          {{"activation", attrs.raw("activation")}}))});
    }
    // The other kernels add a bias of f32 and multiply f32, except those of rows.
    HG_TRY_ASSIGN(const Value bias, widened(graph_, context_, node.inputs[2]));
    if (found->second == Kind::dense) {
      if (rounded_.contains(node.outputs[0])) kept.push_back({"dtype", DType::bf16});
      return Replacement({to_nchw(graph_.call(
          "conv_dense_channels_last",
          {to_nhwc(node.inputs[0]), graph_.value(node.inputs[1]), bias, to_nhwc(node.inputs[3])},
          kept))});
    }
    if (found->second == Kind::entry && dtype == DType::bf16 && multiplies_rows_of(dtype) &&
        fixed_type(graph_, context_, node.inputs[1])) {
      kept.push_back({"dtype", dtype});
      return Replacement({to_nchw(
          graph_.call("conv_to_channels_last",
                      {graph_.value(node.inputs[0]), graph_.value(node.inputs[1]), bias}, kept))});
    }
    HG_TRY_ASSIGN(const Value weight, widened(graph_, context_, node.inputs[1]));
    if (found->second == Kind::entry) {
      HG_TRY_ASSIGN(const Value x, widened(graph_, context_, node.inputs[0]));
      return Replacement(
          {to_nchw(cast(graph_.call("conv_to_channels_last", {x, weight, bias}, kept), dtype))});
    }
    const Value x = cast(to_nhwc(node.inputs[0]), f32),
                residual = cast(to_nhwc(node.inputs[3]), f32);
    return Replacement({to_nchw(
        cast(graph_.call("conv_channels_last", {x, weight, bias, residual}, kept), dtype))});
  }

  Graph& graph_;
  const CompileContext& context_;
  std::unordered_map<ValueId, Kind> chosen_;   // by output
  std::set<ValueId> rounded_;                  // outputs
  std::unordered_map<ValueId, ValueId> last_;  // the value with its channels last
};

}  // namespace

bool multiplies_bf16_rows(const CompileContext& context) {
  return kHoldsMoves && holds_op("conv_dense_channels_last") && chosen_isa() >= Isa::avx512_amx &&
         !context.options->low_memory && !is_disabled(*context.options, "channels_last");
}

Status lay_channels_last(Graph& graph, const CompileContext& context) {
  if (context.options->device != Device::cpu) return {};
  return ChannelsLast(graph, context).run();
}

}  // namespace hg
