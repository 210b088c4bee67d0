// SPDX-License-Identifier: Apache-2.0
#include "converter/load/onnx/roles.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace hg::convert::onnx {
namespace {

// torch.onnx.export(dynamo=True) records for each value its role in the signature of the exported
// program.
constexpr std::string_view kSignature = "pkg.torch.export.graph_signature.InputSpec.kind";

std::optional<State::Kind> kind_of(std::string_view signature) {
  if (signature == "PARAMETER") return State::Kind::parameter;
  if (signature == "BUFFER") return State::Kind::buffer;
  if (signature == "CONSTANT_TENSOR") return State::Kind::constant;
  return {};
}

// Inputs that are settings of an op rather than trainable values.
bool is_setting(std::string_view op, int input) {
  if (op == "BatchNormalization") return input >= 3;
  if (op == "Resize" || op == "Upsample" || op == "Clip" || op == "Pad" || op == "OneHot")
    return input >= 1;
  if (op == "QuantizeLinear" || op == "MatMulNBits") return input >= 1;
  if (op == "RotaryEmbedding" || op == "GatherBlockQuantized") return input >= 1;
  return op == "DequantizeLinear" || op.starts_with("QLinear");
}

// Inputs that are parameters even with one element. Other tensors with one element are constants of
// formulas.
bool is_weight(std::string_view op, int input) {
  if (op == "MatMul" || op == "Gemm" || op == "Einsum") return true;
  return input >= 1 && (op.starts_with("Conv") || op == "PRelu" || op == "LSTM" || op == "GRU" ||
                        op == "RNN" || op.ends_with("Normalization"));
}

}  // namespace

Roles::Roles(const file::ModelProto& model) {
  for (const file::ValueInfoProto& value : model.graph().value_info())
    for (const file::StringStringEntryProto& entry : value.metadata_props())
      if (entry.key() == kSignature)
        if (const auto kind = kind_of(entry.value())) said_[value.name()] = *kind;
  names_states_ = model.producer_name() == "pytorch" && said_.empty();
  read_uses(model.graph());
}

void Roles::read_uses(const file::GraphProto& graph) {
  std::unordered_set<std::string> products;
  for (const file::NodeProto& node : graph.node()) {
    const std::string& op = node.op_type();
    for (int i = 0; i < node.input_size(); ++i) {
      if (is_setting(op, i))
        settings_[node.input(i)] =
            op == "BatchNormalization" ? State::Kind::buffer : State::Kind::constant;
      if (is_weight(op, i)) weights_.insert(node.input(i));
      if (op == "InstanceNormalization") instance_norms_.insert(node.input(i));
    }
    if (op == "MatMul" && node.output_size() > 0) products.insert(node.output(0));
    if (op == "Add" && node.input_size() == 2)  // a bias
      for (int i : {0, 1})
        if (products.contains(node.input(1 - i))) weights_.insert(node.input(i));
    for (const file::AttributeProto& attribute : node.attribute())
      if (attribute.has_g()) read_uses(attribute.g());
  }
}

State::Kind Roles::of(const file::TensorProto& tensor) const {
  const std::string& name = tensor.name();
  if (const auto said = said_.find(name); said != said_.end()) return said->second;
  if (const auto setting = settings_.find(name); setting != settings_.end()) return setting->second;
  // group_norm is exported as instance_norm with ones and zeros, followed by the factors.
  if (is_computed(name) && instance_norms_.contains(name)) return State::Kind::constant;
  const auto& sizes = tensor.dims();
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size > 1; }))
    return State::Kind::parameter;
  if (names_states_ && !is_computed(name)) return State::Kind::parameter;
  const bool weight = tensor.dims_size() > 0 && weights_.contains(name);
  return weight ? State::Kind::parameter : State::Kind::constant;
}

bool Roles::is_computed(const std::string& name) const {
  // The tracing exporter uses "::" only in names of values that it folded itself.
  if (names_states_) return name.find("::") != std::string::npos;
  return !said_.empty() && !said_.contains(name);
}

}  // namespace hg::convert::onnx
