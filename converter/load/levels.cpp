// SPDX-License-Identifier: Apache-2.0
#include "converter/load/levels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "converter/load/known_values.h"
#include "lib/graph/element.h"

namespace hg::convert {
namespace {

constexpr const char* kQuantize = "quantized_decomposed::quantize_per_tensor";
constexpr const char* kDequantize = "quantized_decomposed::dequantize_per_tensor";
constexpr const char* kDequantizeChannels = "quantized_decomposed::dequantize_per_channel";

// Ops whose elements are elements of their first argument, and which may be views.
bool moves(const ScriptNode& node) {
  return node.outputs.size() == 1 &&
         is_any(node,
                {"aten::flatten", "aten::view", "aten::reshape", "aten::permute", "aten::transpose",
                 "aten::t", "aten::squeeze", "aten::unsqueeze", "aten::slice", "aten::select",
                 "aten::contiguous", "aten::alias", "aten::max_pool2d", "aten::max_pool3d",
                 "aten::max_pool1d", "aten::upsample_nearest2d", "aten::pixel_shuffle"});
}
// The quantization of a tensor: real = (levels - zero) * scale.
struct Quantized {
  ScriptId levels = 0, scale = 0, zero = 0;
  bool by_channel = false;
  int64_t dtype = 0;  // torch's number of u8 or i8
};

class Joiner {
 public:
  explicit Joiner(ScriptProgram& program) : program_(program), known_(program) {
    count_uses(program.body, uses_);
    join(program.body);
  }

 private:
  using Arguments = std::vector<std::pair<std::string, ScriptId>>;

  static void count_uses(const ScriptBlock& block, std::map<ScriptId, int64_t>& uses) {
    for (const ScriptNode& node : block.nodes) {
      for (const ScriptId id : node.inputs) ++uses[id];
      for (const ScriptBlock& inner : node.blocks) count_uses(inner, uses);
    }
    for (const ScriptId id : block.outputs) ++uses[id];
  }

  void join(ScriptBlock& block) {
    std::vector<ScriptNode> nodes;
    std::swap(nodes, block.nodes);
    std::vector<ScriptNode>* const outer = std::exchange(nodes_, &block.nodes);
    std::map<ScriptId, size_t> makers;
    std::swap(makers, makers_);
    for (ScriptNode& node : nodes) {
      known_.learn(node);
      for (ScriptBlock& inner : node.blocks) join(inner);
      if (!join(node)) keep(std::move(node));
    }
    remove_unused(block);
    makers_ = std::move(makers);
    nodes_ = outer;
  }
  void remove_unused(ScriptBlock& block) const {
    std::map<ScriptId, int64_t> uses;
    count_uses(block, uses);
    for (size_t i = block.nodes.size(); i-- > 0;) {
      ScriptNode& node = block.nodes[i];
      const bool pure = left_.count(node.outputs.size() == 1 ? node.outputs[0] : -1) > 0;
      if (!pure || uses[node.outputs[0]] > 0) continue;
      for (const ScriptId id : node.inputs) --uses[id];
      node.kind.clear();
    }
    std::erase_if(block.nodes, [](const ScriptNode& node) { return node.kind.empty(); });
  }

  void keep(ScriptNode&& node) {
    for (const ScriptId id : node.outputs) makers_[id] = nodes_->size();
    nodes_->push_back(std::move(node));
  }
  const ScriptNode* maker(ScriptId id) const {
    const auto found = makers_.find(id);
    return found == makers_.end() ? nullptr : &(*nodes_)[found->second];
  }
  ScriptId add(const ScriptNode& at, std::string kind, const Arguments& arguments,
               ScriptId result) {
    ScriptNode node;
    node.kind = std::move(kind);
    node.origin = at.origin;
    for (const auto& [name, id] : arguments) {
      node.argument_names.push_back(name);
      node.inputs.push_back(id);
      ++uses_[id];
    }
    node.outputs = {result};
    node.output_types = {"Tensor"};
    keep(std::move(node));
    return result;
  }

  // The levels of a value that a dequantization gives, or an op that moves its elements. Makes the
  // node that moves the levels, and notes what they stand for.
  std::optional<Quantized> levels_of(ScriptId id) {
    const std::optional<Quantized> found = find_levels(id);
    const auto scale = found ? known_.number(found->scale) : std::nullopt,
               zero = found ? known_.number(found->zero) : std::nullopt;
    if (scale && zero) program_.levels[id] = {found->levels, *scale, *zero};
    return found;
  }
  std::optional<Quantized> find_levels(ScriptId id) {
    const ScriptNode* node = maker(id);
    if (node == nullptr || known_.may_change(id)) return std::nullopt;
    if (node->kind == kDequantize || node->kind == kDequantizeChannels) {
      Quantized result;
      result.by_channel = node->kind == kDequantizeChannels;
      const auto input = argument_of(*node, "input"),
                 scale = argument_of(*node, result.by_channel ? "scales" : "scale"),
                 zero = argument_of(*node, result.by_channel ? "zero_points" : "zero_point");
      const auto dtype = number_of(*node, "dtype"), to = number_of(*node, "out_dtype");
      constexpr double kFloat = 6;
      if (!input || !scale || !zero || !dtype || (*dtype != 0 && *dtype != 1) ||
          (to && *to != kFloat))
        return std::nullopt;
      if (result.by_channel && number_of(*node, "axis") != 0) return std::nullopt;
      if (known_.is_none(*zero) || known_.may_change(*input)) return std::nullopt;
      result.levels = *input;
      result.scale = *scale;
      result.zero = *zero;
      result.dtype = static_cast<int64_t>(*dtype);
      return result;
    }
    const bool keeps = node->kind == "aten::relu";
    const ScriptNode moving = *node;  // adding nodes moves them
    if (node->kind == "aten::cat") return levels_of_parts(moving);
    if (!keeps && !moves(*node)) return std::nullopt;
    std::optional<Quantized> from = levels_of(moving.inputs[0]);
    if (!from || from->by_channel) return std::nullopt;
    if (keeps) return is_lowest(*from) ? from : std::nullopt;
    const auto found = moved_.find(id);
    if (found != moved_.end() && maker(found->second) != nullptr) {  // its block has not ended
      from->levels = found->second;
      return from;
    }
    left_.insert(id);
    ScriptNode node_of_levels = moving;
    node_of_levels.inputs[0] = from->levels;
    for (const ScriptId each : node_of_levels.inputs) ++uses_[each];
    node_of_levels.outputs = {program_.value_count++};
    from->levels = moved_[id] = node_of_levels.outputs[0];
    left_.insert(from->levels);
    keep(std::move(node_of_levels));
    return from;
  }
  std::optional<Quantized> levels_of_parts(const ScriptNode& cat) {
    const ScriptNode* list = maker(cat.inputs[0]);
    if (list == nullptr || list->kind != "prim::ListConstruct" || list->inputs.empty())
      return std::nullopt;
    ScriptNode parts = *list, joined = cat;
    std::optional<Quantized> all;
    for (ScriptId& id : parts.inputs) {
      const std::optional<Quantized> part = levels_of(id);
      if (!part || part->by_channel || (all && !are_equal(*all, *part))) return std::nullopt;
      if (!all) all = part;
      id = part->levels;
      ++uses_[id];
    }
    if (!all) return std::nullopt;
    left_.insert({cat.outputs[0], cat.inputs[0]});
    parts.outputs = {program_.value_count++};
    joined.inputs[0] = parts.outputs[0];
    joined.outputs = {program_.value_count++};
    all->levels = joined.outputs[0];
    left_.insert({parts.outputs[0], all->levels});
    keep(std::move(parts));
    keep(std::move(joined));
    return all;
  }
  bool are_equal(const Quantized& a, const Quantized& b) const {
    const auto scale = known_.number(a.scale), zero = known_.number(a.zero);
    return scale && zero && a.dtype == b.dtype && known_.number(b.scale) == scale &&
           known_.number(b.zero) == zero;
  }
  std::optional<double> number_of(const ScriptNode& node, std::string_view name) const {
    const auto id = argument_of(node, name);
    return id ? known_.number(*id) : std::nullopt;
  }
  // Whether no level stands for a negative number.
  bool is_lowest(const Quantized& q) const {
    return known_.number(q.zero) == (q.dtype == 0 ? 0.0 : -128.0);
  }

  bool join(const ScriptNode& node) {
    if (node.kind == kQuantize) return join_quantize(node);
    if (node.kind == "aten::linear") return join_linear(node);
    if (is_any(node, {"aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::convolution"}))
      return join_convolution(node);
    return false;
  }

  // The arguments that all products share; empty if the product cannot be one of integers.
  Arguments operands(const ScriptNode& node) {
    const auto input = argument_of(node, "input"), weight = argument_of(node, "weight"),
               bias = argument_of(node, "bias");
    if (!input || !weight) return {};
    const ScriptNode* of_weight = maker(*weight);
    if (of_weight == nullptr ||
        (of_weight->kind != kDequantize && of_weight->kind != kDequantizeChannels))
      return {};
    const std::optional<Quantized> w = levels_of(*weight);
    const std::optional<Quantized> x = w ? levels_of(*input) : std::nullopt;
    if (!x || x->by_channel) return {};
    Arguments result = {{"x", x->levels},
                        {"x_scale", x->scale},
                        {"x_zero", x->zero},
                        {"weight", w->levels},
                        {"weight_scale", w->scale}};
    if (!is_zero(w->zero)) result.emplace_back("weight_zero", w->zero);
    left_.insert(*input);
    left_.insert(*weight);
    if (!bias || known_.is_none(*bias)) return result;
    result.emplace_back("bias", *bias);
    if (!fits(*bias, *x, *w)) apart_.insert(node.outputs[0]);
    return result;
  }
  bool is_zero(ScriptId zero) const {
    if (const auto number = known_.number(zero)) return *number == 0;
    const Tensor* all = known_.tensor(zero);
    for (int64_t i = 0; all != nullptr && i < all->count(); ++i)
      if (element(*all, i) != 0) return false;
    return all != nullptr;
  }
  // Whether the bias, rounded to multiples of the scales' product, and all sums fit 32 bits.
  bool fits(ScriptId bias, const Quantized& x, const Quantized& w) const {
    const Tensor *b = known_.tensor(bias), *weight = known_.tensor(w.levels),
                 *scales = known_.tensor(w.scale);
    const auto scale = known_.number(x.scale), one = known_.number(w.scale);
    if (b == nullptr || b->dtype != f32 || weight == nullptr || !scale || (!scales && !one))
      return false;
    const int64_t out = b->count();
    if (out == 0 || weight->count() / out > 16384) return false;
    if (scales != nullptr && scales->count() != 1 && scales->count() != out) return false;
    for (int64_t i = 0; i < out; ++i) {
      const double by = *scale * (one ? *one : element(*scales, i));
      if (!(std::abs(element(*b, i)) <= std::abs(by) * 0x1p30)) return false;
    }
    return true;
  }
  bool join_product(const ScriptNode& node, const char* kind, const Arguments& arguments) {
    if (arguments.empty()) return false;
    left_.insert(add(node, kind, arguments, node.outputs[0]));
    return true;
  }
  bool join_linear(const ScriptNode& node) {
    return join_product(node, "hologram::integer_linear", operands(node));
  }
  bool join_convolution(const ScriptNode& node) {
    if (const auto transposed = argument_of(node, "transposed");
        transposed && known_.number(*transposed) != 0)
      return false;
    const auto padding = argument_of(node, "padding");
    if (const Item* item = padding ? known_.find(*padding) : nullptr;
        item != nullptr && item->is_string())
      return false;
    Arguments arguments = operands(node);
    for (const char* name : {"stride", "padding", "dilation", "groups"})
      if (const auto id = argument_of(node, name); id && !arguments.empty())
        arguments.emplace_back(name, *id);
    return join_product(node, "hologram::integer_convolution", arguments);
  }

  // Makes the quantization part of the product that alone it reads, or removes it where it gives
  // the levels that its input comes from.
  bool join_quantize(const ScriptNode& node) {
    const auto input = argument_of(node, "input"), scale = argument_of(node, "scale"),
               zero = argument_of(node, "zero_point");
    const auto dtype = number_of(node, "dtype"), low = number_of(node, "quant_min"),
               high = number_of(node, "quant_max");
    if (!input || !scale || !zero || !dtype || !low || !high) return false;
    if ((*dtype != 0 || *low != 0 || *high != 255) && (*dtype != 1 || *low != -128 || *high != 127))
      return false;
    const auto s = known_.number(*scale), z = known_.number(*zero);
    if (!s || !z || !(*s > 0x1p-100 && *s < 0x1p100)) return false;
    const Quantized y{0, *scale, *zero, false, static_cast<int64_t>(*dtype)};
    if (const std::optional<Quantized> same = levels_of(*input);
        same && !same->by_channel && are_equal(*same, y)) {
      left_.insert(*input);
      add(node, "aten::alias", {{"self", same->levels}}, node.outputs[0]);
      return true;
    }
    ScriptId id = *input;
    const ScriptNode* product = maker(id);
    std::vector<ScriptId> between;
    while (product != nullptr && product->kind == "aten::relu" && uses_[id] == 1 && is_lowest(y)) {
      between.push_back(id);
      id = product->inputs[0];
      product = maker(id);
    }
    if (product == nullptr || uses_[id] != 1 || apart_.count(id) > 0 ||
        !is_any(*product, {"hologram::integer_linear", "hologram::integer_convolution"}))
      return false;
    between.push_back(id);
    left_.insert(between.begin(), between.end());
    Arguments arguments;
    for (size_t i = 0; i < product->inputs.size(); ++i)
      arguments.emplace_back(product->argument_names[i], product->inputs[i]);
    arguments.emplace_back("scale", *scale);
    arguments.emplace_back("zero_point", *zero);
    arguments.emplace_back("dtype", *argument_of(node, "dtype"));
    const ScriptNode at = *product;
    add(at, at.kind, arguments, node.outputs[0]);
    return true;
  }

  ScriptProgram& program_;
  KnownValues known_;
  std::vector<ScriptNode>* nodes_ = nullptr;  // of the block in work
  std::map<ScriptId, size_t> makers_;         // in that block
  std::map<ScriptId, int64_t> uses_;
  std::map<ScriptId, ScriptId> moved_;  // the levels of a value whose elements were moved
  std::set<ScriptId> left_;             // values that need not be made if nothing reads them
  std::set<ScriptId> apart_;            // products whose bias cannot be an integer
};

}  // namespace

void join_levels(ScriptProgram& program) { Joiner joiner(program); }

bool has_levels(const ScriptBlock& block) {
  return std::any_of(block.nodes.begin(), block.nodes.end(), [](const ScriptNode& node) {
    return node.kind.starts_with("quantized::") || node.kind.starts_with("aten::quantize_per_") ||
           is_any(node, {"aten::dequantize", "aten::int_repr", "aten::quantized_lstm",
                         "aten::quantized_gru"}) ||
           node.kind == kDequantize || node.kind == kDequantizeChannels ||
           std::any_of(node.blocks.begin(), node.blocks.end(), has_levels);
  });
}

}  // namespace hg::convert
