// SPDX-License-Identifier: Apache-2.0
// Ops of quantized::: products with packed weights, and ops that aten has for their real values.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "converter/load/torchscript/quantized.h"
#include "converter/load/torchscript/quantized_lowering.h"

namespace hg::convert::quantized {
namespace {

// The op that computes the values of an op of quantized::, and its arguments: `to=from`, or one
// name for both. Others have fixed values.
struct Computed {
  std::string_view of, op, arguments;
  std::vector<std::pair<std::string, Item>> fixed = {};
  const char* overload = "";
};
const std::vector<Computed>& computed() {
  constexpr const char* kPool = "self=qx kernel_size stride padding dilation ceil_mode";
  static const std::vector<Computed> all = {
      {"add", "aten::add", "self=qa other=qb", {{"alpha", 1}}, "Tensor"},
      {"mul", "aten::mul", "self=qa other=qb", {}, "Tensor"},
      {"matmul", "aten::matmul", "self=qa other=qb"},
      {"cat", "aten::cat", "tensors=qx dim"},
      {"hardswish", "aten::hardswish", "self=input"},
      {"leaky_relu", "aten::leaky_relu", "self=qx negative_slope"},
      {"elu", "aten::elu", "self alpha scale input_scale"},
      {"celu", "aten::celu", "self alpha"},
      {"sigmoid", "aten::sigmoid", "self=qx"},
      {"softmax", "aten::softmax", "self=qx dim", {}, "int"},
      {"layer_norm", "aten::layer_norm", "input normalized_shape weight bias eps"},
      {"group_norm", "aten::group_norm", "input num_groups weight bias eps"},
      {"instance_norm",
       "aten::instance_norm",
       "input weight bias eps",
       {{"running_mean", {}}, {"running_var", {}}, {"use_input_stats", true}, {"momentum", 0.1}}},
      {"batch_norm",
       "aten::batch_norm",
       "input=qx weight bias running_mean=mean running_var=var eps",
       {{"training", false}, {"momentum", 0.1}}},
      {"relu6", "aten::relu6", "self=qx"},
      {"clamp", "aten::clamp", "self=qx min max"},
      {"threshold", "aten::threshold", "self=qx threshold value"},
      {"max_pool1d", "aten::max_pool1d", kPool},
      {"max_pool2d", "aten::max_pool2d", kPool},
  };
  return all;
}
const Computed* computed_of(const std::string& op) {
  const bool norm = op.starts_with("batch_norm");  // batch_norm2d
  for (const Computed& each : computed())
    if (each.of == (norm ? std::string_view("batch_norm") : op)) return &each;
  return nullptr;
}

}  // namespace

const Object* Lowering::object_of(ScriptId id, std::string_view type) const {
  const Item* item = known_.find(id);
  if (item == nullptr || !item->is_object()) return nullptr;
  const Object* object = std::get<std::shared_ptr<Object>>(item->value).get();
  return object->type == type ? object : nullptr;
}

const Object* Lowering::packed(const ScriptNode& node) const {
  for (const ScriptId id : node.inputs)
    if (const Object* object = object_of(id, kPackedWeights)) return object;
  return nullptr;
}

Item Lowering::attribute(const Object& object, std::string_view name) {
  for (const auto& [each, item] : object.attributes)
    if (each == name) return item;
  return {};
}

ScriptId Lowering::weight(const ScriptNode& at, const Object& packed) {
  const ScriptId levels = constant(at, attribute(packed, "weight"));
  const Item scale = attribute(packed, "scale");
  if (scale.is_none()) return levels;
  const Levels i8_levels{1, 0, kQInt8};
  Arguments all = {{"input", levels}};
  const bool channels = std::holds_alternative<ScriptTensorIndex>(scale.value);
  all.emplace_back(channels ? "scales" : "scale", constant(at, scale));
  all.emplace_back(channels ? "zero_points" : "zero_point",
                   constant(at, attribute(packed, "zero_point")));
  if (channels) all.emplace_back("axis", constant(at, attribute(packed, "axis")));
  all.emplace_back("quant_min", constant(at, i8_levels.least()));
  all.emplace_back("quant_max", constant(at, i8_levels.most()));
  all.emplace_back("dtype", constant(at, i8_levels.integers()));
  return value(at,
               channels ? "quantized_decomposed::dequantize_per_channel"
                        : "quantized_decomposed::dequantize_per_tensor",
               all);
}

ScriptId Lowering::product(const ScriptNode& at, const std::string& op, ScriptId x,
                           const Object& packed) {
  ScriptId w = weight(at, packed);
  const ScriptId bias = constant(at, attribute(packed, "bias"));
  if (op == "linear")
    return value(at, "aten::linear", {{"input", x}, {"weight", w}, {"bias", bias}});
  const bool one = op.ends_with("1d");  // packed as a 2-d convolution whose images have height 1
  if (one) w = value(at, "aten::squeeze", {{"self", w}, {"dim", constant(at, 2)}}, "dim");
  const auto sizes = [&](const char* name) {
    Item item = attribute(packed, name);
    if (!one) return constant(at, item);
    auto last = std::make_shared<List>();
    last->items.push_back(std::get<std::shared_ptr<List>>(item.value)->items.back());
    return constant(at, last);
  };
  return value(at, "aten::convolution",
               {{"input", x},
                {"weight", w},
                {"bias", bias},
                {"stride", sizes("stride")},
                {"padding", sizes("padding")},
                {"dilation", sizes("dilation")},
                {"transposed", constant(at, attribute(packed, "transpose"))},
                {"output_padding", sizes("output_padding")},
                {"groups", constant(at, attribute(packed, "groups"))}});
}

ScriptId Lowering::dynamic_linear(const ScriptNode& at, ScriptId x, const Object& packed,
                                  bool reduce) {
  const ScriptId rounded = program_.value_count++;
  round_dynamic(at, x, Levels{}, reduce, rounded);
  return product(at, "linear", rounded, packed);
}

void Lowering::lower_quantized_op(ScriptNode&& node) {
  std::string op = node.kind.substr(std::strlen("quantized::"));
  const ScriptId result = node.outputs.empty() ? -1 : node.outputs[0];
  if (op.ends_with("_cell_dynamic")) return lower_cell(std::move(node));
  if (op.starts_with("embedding_")) return lower_embedding(std::move(node));
  if (node.outputs.size() != 1 || !node.outs.empty() || node.overload.ends_with("out"))
    return keep(std::move(node));
  const bool dynamic = removes(op, "_dynamic"), relu = op != "leaky_relu" && removes(op, "_relu");
  const bool accumulates = removes(op, "_add") && op == "conv2d";
  constexpr std::string_view kProducts[] = {
      "linear",           "conv1d",           "conv2d",          "conv3d",
      "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"};
  const ScriptId x = node.inputs.at(0);
  if (std::find(std::begin(kProducts), std::end(kProducts), op) != std::end(kProducts)) {
    const Object* weights = packed(node);
    if (weights == nullptr)
      return refuse(std::move(node), "the packed weights are not an attribute of the model");
    if (dynamic) {
      const auto reduce = argument_of(node, "reduce_range") ? number(node, "reduce_range") : 0;
      if (!reduce) return refuse(std::move(node), "reduce_range must be a constant");
      const ScriptId rounded = program_.value_count++;
      round_dynamic(node, x, Levels{}, *reduce != 0, rounded);
      return finish(node, product(node, op, rounded, *weights), relu, {}, result);
    }
    const auto input = levels_.find(x);
    const auto levels = given_levels(node, input == levels_.end() ? 0 : input->second.dtype);
    if (input == levels_.end() || !levels)
      return refuse(std::move(node), "the scales and zero points must be constants of the file");
    ScriptId y = product(node, op, x, *weights);
    if (accumulates)
      y = value(node, "aten::add",
                {{"self", y}, {"other", node.inputs.at(1)}, {"alpha", constant(node, 1)}},
                "Tensor");
    return finish(node, y, relu, levels, result);
  }
  if (node.overload.starts_with("Scalar") || op == "add_scalar" || op == "mul_scalar")
    return with_number(std::move(node), op.substr(0, 3), relu, result);
  if (op == "dropout") {
    const auto training = number(node, "training");
    const auto levels = given_levels(node, levels_[x].dtype);
    if (!training || *training != 0 || !levels)
      return refuse(std::move(node), "dropout must be inactive");
    return finish(node, x, false, levels, result);
  }
  if (op == "prelu") return lower_prelu(std::move(node));
  const Computed* row = computed_of(op);
  if (row == nullptr || dynamic || accumulates) return keep(std::move(node));
  ScriptId source = x;
  if (const auto list = lists_.find(x); list != lists_.end() && !list->second.empty())
    source = list->second[0];
  const auto from = levels_.find(source);
  if (from == levels_.end())
    return refuse(std::move(node), "the scale and the zero point must be constants of the file");
  const bool pools = op.starts_with("max_pool");
  std::optional<Levels> levels = given_levels(node, from->second.dtype);
  const auto named = [&](const char* name) {
    const auto id = argument_of(node, name);
    return id && !known_.is_none(*id);
  };
  if (!levels && (named("output_scale") || named("zero_point")))
    return refuse(std::move(node), "the scale and the zero point must be constants of the file");
  if (!levels) levels = from->second;
  Arguments arguments;
  for (std::string_view rest = row->arguments; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const std::string_view to = one.substr(0, one.find('='));
    if (const auto id = argument_of(node, one.substr(one.find('=') + 1)))
      arguments.emplace_back(to, *id);
  }
  for (const auto& [name, item] : row->fixed) arguments.emplace_back(name, constant(node, item));
  const ScriptId y = value(node, std::string(row->op), arguments, row->overload);
  if (!pools) return finish(node, y, relu, levels, result);
  emit(node, "aten::alias", {{"self", y}}, result);
  levels_[result] = *levels;
}

void Lowering::lower_prelu(ScriptNode&& node) {
  const ScriptId x = *argument_of(node, "qx"), slopes = *argument_of(node, "weight");
  const auto from = levels_.find(x), of_slopes = levels_.find(slopes);
  const auto levels = given_levels(node, from == levels_.end() ? 0 : from->second.dtype);
  if (from == levels_.end() || of_slopes == levels_.end() || !levels)
    return refuse(std::move(node), "the scales and zero points must be constants of the file");
  const Levels& w = of_slopes->second;
  const auto zero = static_cast<double>(w.zero_point);
  const double one = std::clamp(std::nearbyint(1 / w.scale) + zero, static_cast<double>(w.least()),
                                static_cast<double>(w.most()));
  const ScriptId above = value(node, "aten::relu", {{"self", x}});
  const ScriptId below = value(node, "aten::clamp_max", {{"self", x}, {"max", constant(node, 0)}});
  const ScriptId y =
      value(node, "aten::add",
            {{"self", value(node, "aten::mul",
                            {{"self", above}, {"other", constant(node, (one - zero) * w.scale)}},
                            "Scalar")},
             {"other", value(node, "aten::prelu", {{"self", below}, {"weight", slopes}})},
             {"alpha", constant(node, 1)}},
            "Tensor");
  finish(node, y, false, levels, node.outputs[0]);
}

void Lowering::finish(const ScriptNode& at, ScriptId y, bool relu,
                      const std::optional<Levels>& levels, ScriptId result) {
  if (levels) {
    if (relu) y = value(at, "aten::relu", {{"self", y}});
    return round_to(at, y, *levels, result);
  }
  emit(at, relu ? "aten::relu" : "aten::alias", {{"self", y}}, result);
}

void Lowering::with_number(ScriptNode&& node, const std::string& op, bool relu, ScriptId result) {
  const bool first = levels_.count(node.inputs.at(0)) > 0;
  const ScriptId x = node.inputs[first ? 0 : 1];
  const auto c = known_.number(node.inputs[first ? 1 : 0]);
  const auto from = levels_.find(x);
  if (!c || from == levels_.end())
    return refuse(std::move(node), "the number must be a constant of the file");
  const Levels before = from->second;
  Levels after = before;
  ScriptId y;
  const auto low = static_cast<double>(before.least()), high = static_cast<double>(before.most());
  if (op == "mul") {
    y = value(node, "aten::mul", {{"self", x}, {"other", constant(node, *c)}}, "Scalar");
    after.scale = *c == 0 ? 1 : before.scale * std::abs(*c);
    after.zero_point = *c > 0   ? before.zero_point
                       : *c < 0 ? before.most() - (before.zero_point - before.least())
                                : 0;
  } else {
    const double steps = std::nearbyint(*c / before.scale);
    const double zero = static_cast<double>(before.zero_point) - steps;
    y = value(node, "aten::add",
              {{"self", x},
               {"other", constant(node, steps * before.scale)},
               {"alpha", constant(node, 1)}},
              "Scalar");
    if (zero < low) {
      after.scale = (high - zero) / (high - low) * before.scale;
      after.zero_point = before.least();
    } else if (zero > high) {
      after.scale = (zero - low) / (high - low) * before.scale;
      after.zero_point = before.most();
    } else {
      after.zero_point = static_cast<int64_t>(zero);
    }
  }
  finish(node, y, relu, after, result);
}

}  // namespace hg::convert::quantized
