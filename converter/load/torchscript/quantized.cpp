// SPDX-License-Identifier: Apache-2.0
#include "converter/load/torchscript/quantized.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "converter/load/known_values.h"

namespace hg::convert {
namespace {

// torch's numbers for dtypes.
constexpr int64_t kQInt8 = 12, kQUInt8 = 13, kQInt32 = 14;

// The levels of a quantized tensor.
struct Levels {
  double scale = 1;
  int64_t zero_point = 0;
  int64_t dtype = kQUInt8;

  int64_t integers() const { return dtype == kQUInt8 ? 0 : dtype == kQInt8 ? 1 : 3; }
  int64_t least() const { return dtype == kQUInt8 ? 0 : dtype == kQInt8 ? -128 : INT32_MIN; }
  int64_t most() const { return dtype == kQUInt8 ? 255 : dtype == kQInt8 ? 127 : INT32_MAX; }
  friend bool operator==(const Levels&, const Levels&) = default;
};

// How a result of an op on a quantized tensor is rounded.
enum class Rounding {
  none,   // its elements are elements of the argument
  same,   // to the levels of the argument
  steps,  // to those levels; it is linear, so it is computed in whole numbers of levels
  unit,   // to 256 levels from 0 to 1
  sign,   // to 256 levels from -1 to 1
};
constexpr std::pair<Rounding, std::string_view> kRoundings[] = {
    {Rounding::none,
     " alias adaptive_max_pool2d channel_shuffle chunk clone contiguous detach expand flatten flip "
     "index_select max_pool1d max_pool2d max_pool3d movedim narrow permute pixel_shuffle "
     "pixel_unshuffle relu repeat replication_pad1d replication_pad2d replication_pad3d "
     "reflection_pad1d reflection_pad2d reshape select slice split split_with_sizes squeeze "
     "swapaxes t transpose unbind unflatten unsqueeze upsample_nearest1d upsample_nearest2d "
     "upsample_nearest3d view "},
    {Rounding::same, " cat clamp constant_pad_nd hardtanh pad relu6 stack threshold "},
    {Rounding::steps,
     " adaptive_avg_pool2d adaptive_avg_pool3d avg_pool2d avg_pool3d leaky_relu mean "
     "upsample_bilinear2d "},
    {Rounding::unit, " hardsigmoid sigmoid "},
    {Rounding::sign, " tanh "},
};
std::optional<Rounding> rounding_of(const std::string& op) {
  for (const auto& [rounding, ops] : kRoundings)
    if (ops.find(" " + op + " ") != std::string_view::npos) return rounding;
  return std::nullopt;
}
// Ops that read no elements.
constexpr std::string_view kOnShapes[] = {"aten::size",   "aten::dim",        "aten::numel",
                                          "aten::len",    "aten::__is__",     "aten::__isnot__",
                                          "prim::device", "prim::isinstance", "prim::Print"};

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

bool removes(std::string& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.resize(text.size() - end.size());
  return true;
}

class Lowering {
 public:
  explicit Lowering(ScriptProgram& program) : program_(program), known_(program) {}

  void run() {
    lower(program_.body);
    nodes_ = &program_.body.nodes;
    for (const ScriptId id : program_.body.outputs)
      if (is_quantized(id)) {
        ScriptNode& node = emit(ScriptNode{}, "aten::dequantize", {{"self", id}});
        node.trouble = "an output is a quantized tensor; dequantize it in the model";
      }
  }

 private:
  void lower(ScriptBlock& block) {
    std::vector<ScriptNode> nodes;
    std::swap(nodes, block.nodes);
    std::vector<ScriptNode>* const outer = std::exchange(nodes_, &block.nodes);
    for (ScriptNode& node : nodes) lower(std::move(node));
    for (ScriptId& id : block.outputs) id = renamed(id);
    nodes_ = outer;
  }

  ScriptId renamed(ScriptId id) const {
    const auto found = renamed_.find(id);
    return found == renamed_.end() ? id : found->second;
  }

  void lower(ScriptNode&& node) {
    for (ScriptId& id : node.inputs) id = renamed(id);
    known_.learn(node);
    if (node.kind == "prim::If") return lower_if(std::move(node));
    if (node.kind == "prim::Loop") return lower_loop(std::move(node));
    if (node.kind.starts_with("prim::") && lower_container(node)) return keep(std::move(node));
    if (node.kind.starts_with("quantized::")) return lower_quantized_op(std::move(node));
    if (node.kind.starts_with("aten::quantize_per_") || node.kind == "aten::dequantize")
      return lower_conversion(std::move(node));
    const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(),
                                   [&](ScriptId id) { return is_quantized(id); });
    if (!reads || is_on_shape(node)) return keep(std::move(node));
    lower_aten(std::move(node));
  }

  bool is_quantized(ScriptId id) const {
    if (levels_.count(id) > 0 || channels_.count(id) > 0) return true;
    const auto list = lists_.find(id);
    return list != lists_.end() && std::any_of(list->second.begin(), list->second.end(),
                                               [&](ScriptId each) { return is_quantized(each); });
  }
  static bool is_on_shape(const ScriptNode& node) {
    return std::find(std::begin(kOnShapes), std::end(kOnShapes), node.kind) != std::end(kOnShapes);
  }

  // ---- nodes
  void keep(ScriptNode&& node) { nodes_->push_back(std::move(node)); }
  void refuse(ScriptNode&& node, std::string why) {
    node.trouble = std::move(why);
    keep(std::move(node));
  }
  using Arguments = std::vector<std::pair<std::string, ScriptId>>;
  ScriptNode& emit(const ScriptNode& at, std::string kind, const Arguments& arguments,
                   ScriptId result = -1, std::string overload = "") {
    ScriptNode node;
    node.kind = std::move(kind);
    node.overload = std::move(overload);
    node.origin = at.origin;
    for (const auto& [name, id] : arguments) {
      node.argument_names.push_back(name);
      node.inputs.push_back(id);
    }
    node.outputs = {result >= 0 ? result : program_.value_count++};
    node.output_types = {"Tensor"};
    nodes_->push_back(std::move(node));
    return nodes_->back();
  }
  ScriptId value(const ScriptNode& at, std::string kind, const Arguments& arguments,
                 std::string overload = "") {
    return emit(at, std::move(kind), arguments, -1, std::move(overload)).outputs[0];
  }
  ScriptId constant(const ScriptNode& at, Item item) {
    ScriptNode& node = emit(at, "prim::Constant", {});
    node.constant = std::move(item);
    return node.outputs[0];
  }

  Arguments arguments_of(const ScriptNode& at, ScriptId input, ScriptId scale, ScriptId zero,
                         const Levels& levels) {
    return {{"input", input},
            {"scale", scale},
            {"zero_point", zero},
            {"quant_min", constant(at, levels.least())},
            {"quant_max", constant(at, levels.most())},
            {"dtype", constant(at, levels.integers())}};
  }
  Arguments arguments_of(const ScriptNode& at, ScriptId input, const Levels& levels) {
    return arguments_of(at, input, constant(at, levels.scale), constant(at, levels.zero_point),
                        levels);
  }
  ScriptId integers_of(const ScriptNode& at, ScriptId x, const Levels& levels,
                       ScriptId result = -1) {
    return emit(at, "quantized_decomposed::quantize_per_tensor", arguments_of(at, x, levels),
                result)
        .outputs[0];
  }
  void real_of(const ScriptNode& at, ScriptId integers, const Levels& levels, ScriptId result) {
    emit(at, "quantized_decomposed::dequantize_per_tensor", arguments_of(at, integers, levels),
         result);
  }
  // Rounds `x` to levels; `result` is their real value.
  void round_to(const ScriptNode& at, ScriptId x, const Levels& levels, ScriptId result) {
    real_of(at, integers_of(at, x, levels), levels, result);
    levels_[result] = levels;
  }

  std::optional<double> number(const ScriptNode& node, std::string_view name) const {
    const auto id = argument_of(node, name);
    return id ? known_.number(*id) : std::nullopt;
  }

  // The levels that a call names: as in its arguments, of this dtype.
  std::optional<Levels> given_levels(const ScriptNode& node, int64_t dtype) const {
    std::optional<double> scale, zero;
    for (const char* name : {"output_scale", "Y_scale_i", "scale"})
      if (!scale && !(std::string_view(name) == "scale" && argument_of(node, "output_scale")))
        scale = number(node, name);
    for (const char* name : {"output_zero_point", "Y_zero_point_i", "zero_point"})
      if (!zero) zero = number(node, name);
    if (!scale || !zero) return std::nullopt;
    return Levels{*scale, static_cast<int64_t>(*zero), dtype};
  }

  // ---- control flow and containers
  void lower_if(ScriptNode&& node) {
    if (const auto side = known_.number(node.inputs[0])) {  // only this side exists
      ScriptBlock& block = node.blocks[*side != 0 ? 0 : 1];
      for (ScriptNode& each : block.nodes) lower(std::move(each));
      for (size_t i = 0; i < node.outputs.size(); ++i)
        renamed_[node.outputs[i]] = renamed(block.outputs[i]);
      return;
    }
    for (ScriptBlock& block : node.blocks) lower(block);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ScriptId yes = node.blocks[0].outputs[i], no = node.blocks[1].outputs[i];
      if (!is_quantized(yes) && !is_quantized(no)) continue;
      const auto one = levels_.find(yes), other = levels_.find(no);
      if (one == levels_.end() || other == levels_.end() || !(one->second == other->second))
        node.trouble = "its sides give tensors with other levels";
      else
        give(node.outputs[i], yes);
    }
    keep(std::move(node));
  }
  void lower_loop(ScriptNode&& node) {
    ScriptBlock& body = node.blocks.at(0);
    const size_t carried = body.inputs.size() - 1;
    for (size_t i = 0; i < carried; ++i)
      if (is_quantized(node.inputs[i + 2])) give(body.inputs[i + 1], node.inputs[i + 2]);
    lower(body);
    for (size_t i = 0; i < carried; ++i) {
      const ScriptId before = node.inputs[i + 2], after = body.outputs[i + 1];
      if (!is_quantized(before) && !is_quantized(after)) continue;
      if (levels_.count(before) == 0 || levels_.count(after) == 0 ||
          !(levels_[before] == levels_[after]))
        node.trouble = "it changes the levels of a quantized tensor";
      else
        give(node.outputs[i], after);
    }
    keep(std::move(node));
  }
  // Makes `to` quantized as `from` is.
  void give(ScriptId to, ScriptId from) {
    if (const auto found = levels_.find(from); found != levels_.end()) levels_[to] = found->second;
    if (const auto found = channels_.find(from); found != channels_.end())
      channels_[to] = found->second;
    if (const auto found = lists_.find(from); found != lists_.end()) lists_[to] = found->second;
  }
  // The part of a list or tuple that a node with a constant place gives.
  std::optional<ScriptId> part_of(const ScriptNode& node) const {
    const auto list = lists_.find(node.inputs[0]);
    const auto at = known_.number(node.inputs.at(1));
    if (list == lists_.end() || !at) return std::nullopt;
    const auto size = static_cast<double>(list->second.size());
    const double place = *at < 0 ? *at + size : *at;
    if (place < 0 || place >= size) return std::nullopt;
    return list->second[static_cast<size_t>(place)];
  }
  // Returns whether the node stays as it is.
  bool lower_container(const ScriptNode& node) {
    if (node.kind == "prim::ListConstruct" || node.kind == "prim::TupleConstruct") {
      lists_[node.outputs[0]] = node.inputs;
    } else if (node.kind == "prim::ListUnpack" || node.kind == "prim::TupleUnpack") {
      const auto list = lists_.find(node.inputs[0]);
      if (list != lists_.end() && list->second.size() == node.outputs.size()) {
        const std::vector<ScriptId> parts = list->second;
        for (size_t i = 0; i < parts.size(); ++i) give(node.outputs[i], parts[i]);
      } else {
        for (const ScriptId id : node.outputs) give(id, node.inputs[0]);
      }
    } else if (node.kind == "prim::TupleIndex") {
      if (const auto part = part_of(node)) give(node.outputs[0], *part);
    } else if (node.kind == "prim::unchecked_cast" ||
               node.kind == "prim::unchecked_unwrap_optional") {
      give(node.outputs[0], node.inputs[0]);
    } else {
      return false;
    }
    return true;
  }

  // ---- conversions
  void lower_conversion(ScriptNode&& node) {
    const ScriptId result = node.outputs.at(0);
    if (node.kind == "aten::dequantize") {
      if (node.overload == "tensors" || node.overload == "list")
        return refuse(std::move(node), "lists of tensors are not supported");
      if (const auto found = channels_.find(node.inputs[0]); found != channels_.end()) {
        emit(node, "quantized_decomposed::dequantize_per_channel", found->second, result);
        return;
      }
      emit(node, "aten::clone", {{"self", node.inputs[0]}}, result);
      return;
    }
    const auto dtype = number(node, "dtype");
    if (!dtype || *dtype < kQInt8 || *dtype > kQInt32)
      return refuse(std::move(node), "the dtype is not qint8, quint8 or qint32");
    Levels levels{1, 0, static_cast<int64_t>(*dtype)};
    if (node.kind == "aten::quantize_per_tensor_dynamic") {
      const auto reduce = number(node, "reduce_range");
      if (!reduce || levels.dtype == kQInt32)
        return refuse(std::move(node), "reduce_range must be a constant, and dtype of 8 bits");
      return round_dynamic(node, node.inputs[0], levels, *reduce != 0, result);
    }
    if (node.kind == "aten::quantize_per_channel") {
      const auto scales = argument_of(node, "scales"), zeros = argument_of(node, "zero_points");
      Arguments all = {{"scales", *scales},
                       {"zero_points", *zeros},
                       {"axis", *argument_of(node, "axis")},
                       {"quant_min", constant(node, levels.least())},
                       {"quant_max", constant(node, levels.most())},
                       {"dtype", constant(node, levels.integers())}};
      Arguments to = all;
      to.insert(to.begin(), {"input", *argument_of(node, "self")});
      all.insert(all.begin(),
                 {"input",
                  emit(node, "quantized_decomposed::quantize_per_channel", to, result).outputs[0]});
      channels_[result] = all;
      return;
    }
    const auto given = given_levels(node, levels.dtype);
    if (node.kind != "aten::quantize_per_tensor" || !given)
      return refuse(std::move(node), "the scale and the zero point must be constants of the file");
    round_to(node, *argument_of(node, "self"), *given, result);
  }

  // Rounds `x` to levels that its smallest and largest element give.
  void round_dynamic(const ScriptNode& at, ScriptId x, const Levels& levels, bool reduce,
                     ScriptId result) {
    // FBGEMM's ChooseQuantizationParams with 7 bits, or 8.
    const int64_t low = reduce ? levels.least() / 2 : levels.least(),
                  high = reduce ? levels.most() / 2 : levels.most();
    ScriptNode& chosen = emit(at, "quantized_decomposed::choose_qparams",
                              {{"input", x},
                               {"quant_min", constant(at, low)},
                               {"quant_max", constant(at, high)},
                               {"eps", constant(at, 6.1e-5)},
                               {"dtype", constant(at, levels.integers())}},
                              -1, "tensor");
    chosen.outputs.push_back(program_.value_count++);
    chosen.output_types.push_back("Tensor");
    const ScriptId scale = chosen.outputs[0], zero = chosen.outputs[1];
    const ScriptId integers = value(at, "quantized_decomposed::quantize_per_tensor",
                                    arguments_of(at, x, scale, zero, levels), "tensor");
    emit(at, "quantized_decomposed::dequantize_per_tensor",
         arguments_of(at, integers, scale, zero, levels), result, "tensor");
  }

  // ---- ops
  const Object* packed(const ScriptNode& node) const {
    for (const ScriptId id : node.inputs) {
      const Item* item = known_.find(id);
      if (item == nullptr || !item->is_object()) continue;
      const auto& object = std::get<std::shared_ptr<Object>>(item->value);
      if (object->type == kPackedWeights) return object.get();
    }
    return nullptr;
  }
  static Item attribute(const Object& object, std::string_view name) {
    for (const auto& [each, item] : object.attributes)
      if (each == name) return item;
    return {};
  }
  // The real values of packed weights.
  ScriptId weight(const ScriptNode& at, const Object& packed) {
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

  // A convolution or linear layer of `x` with packed weights.
  ScriptId product(const ScriptNode& at, const std::string& op, ScriptId x, const Object& packed) {
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

  void lower_quantized_op(ScriptNode&& node) {
    std::string op = node.kind.substr(std::strlen("quantized::"));
    const ScriptId result = node.outputs.empty() ? -1 : node.outputs[0];
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

  void finish(const ScriptNode& at, ScriptId y, bool relu, const std::optional<Levels>& levels,
              ScriptId result) {
    if (levels) {
      if (relu) y = value(at, "aten::relu", {{"self", y}});
      return round_to(at, y, *levels, result);
    }
    emit(at, relu ? "aten::relu" : "aten::alias", {{"self", y}}, result);
  }

  // A sum or product with a number keeps the levels and moves the scale or zero point (PyTorch's
  // quantized/cpu/qadd.cpp, qmul.cpp).
  void with_number(ScriptNode&& node, const std::string& op, bool relu, ScriptId result) {
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

  void lower_aten(ScriptNode&& node) {
    const auto x = std::find_if(node.inputs.begin(), node.inputs.end(),
                                [&](ScriptId id) { return is_quantized(id); });
    ScriptId source = *x;
    if (const auto list = lists_.find(source); list != lists_.end()) {
      if (node.kind == "aten::__getitem__") return keep_item(std::move(node));
      if (!list->second.empty()) source = list->second[0];
    }
    const ScriptId result = node.outputs.empty() ? -1 : node.outputs[0];
    const auto found = levels_.find(source);
    if (found == levels_.end())
      return refuse(std::move(node), "the op is not supported for tensors quantized by channels");
    const Levels levels = found->second;
    if (node.kind == "aten::q_scale" || node.kind == "aten::q_zero_point") {
      ScriptNode& number = emit(node, "prim::Constant", {}, result);
      number.constant = node.kind == "aten::q_scale" ? Item(levels.scale) : Item(levels.zero_point);
      known_.set(result, number.constant);
      return;
    }
    if (node.kind == "prim::is_quantized") {
      emit(node, "prim::Constant", {}, result).constant = true;
      return;
    }
    if (node.kind == "aten::int_repr") {
      integers_of(node, source, levels, result);
      return;
    }
    std::string op = node.kind.starts_with("aten::") ? node.kind.substr(6) : node.kind;
    const bool in_place = is_in_place(node) && removes(op, "_");
    const std::optional<Rounding> rounding = rounding_of(op);
    if (!rounding || node.outputs.size() != 1 || !node.outs.empty())
      return refuse(std::move(node),
                    "the op is not supported for quantized tensors; dequantize them before it");
    if (*rounding == Rounding::none) {
      levels_[result] = levels;
      return keep(std::move(node));
    }
    Levels to = levels;
    if (*rounding == Rounding::unit)
      to = {1.0 / 256, levels.dtype == kQInt8 ? -128 : 0, levels.dtype};
    if (*rounding == Rounding::sign)
      to = {2.0 / 256, levels.dtype == kQInt8 ? 0 : 128, levels.dtype};
    if (in_place && !(to == levels))
      return refuse(std::move(node), "the op gives its tensor other levels");
    const ScriptNode at = node;
    ScriptNode inner = std::move(node);
    inner.kind = "aten::" + op;
    const Levels counted{1, levels.zero_point, levels.dtype};
    if (*rounding == Rounding::steps) {
      const ScriptId count = program_.value_count++;
      real_of(at, integers_of(at, source, levels), counted, count);
      std::replace(inner.inputs.begin(), inner.inputs.end(), source, count);
    }
    inner.outputs = {program_.value_count++};
    const ScriptId y = inner.outputs[0], rounded = in_place ? program_.value_count++ : result;
    keep(std::move(inner));
    real_of(at, integers_of(at, y, *rounding == Rounding::steps ? counted : to), to, rounded);
    if (in_place) emit(at, "aten::copy_", {{"self", source}, {"src", rounded}}, result);
    levels_[result] = to;
  }
  // An element of a list.
  void keep_item(ScriptNode&& node) {
    const auto part = part_of(node);
    if (!part)
      return refuse(std::move(node), "the place in a list of quantized tensors must be a constant");
    give(node.outputs[0], *part);
    keep(std::move(node));
  }

  ScriptProgram& program_;
  KnownValues known_;
  std::map<ScriptId, ScriptId> renamed_;      // results of the only side of a branch
  std::vector<ScriptNode>* nodes_ = nullptr;  // of the block in work
  std::map<ScriptId, Levels> levels_;         // of quantized tensors, and of the parts of a list
  // Tensors quantized by channels: the arguments of dequantize().
  std::map<ScriptId, Arguments> channels_;
  std::map<ScriptId, std::vector<ScriptId>> lists_;
};

}  // namespace

void lower_quantized(ScriptProgram& program) { Lowering(program).run(); }

}  // namespace hg::convert
