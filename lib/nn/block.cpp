// SPDX-License-Identifier: Apache-2.0
// Blocks of named models: creation from layers, wiring, comparison.
#include "hg/named.h"
#include "lib/graph/same_bits.h"
#include "lib/nn/layer.h"

namespace hg::nn {

Block::Block(const Layer& layer) {
  const Layer::Body& body = LayerAccess::body(layer);
  if (!body.is_sequential()) {
    type = body.kind;
    settings = body.settings;
    return;
  }
  type = "Group";
  for (const Layer& inner : body.layers) blocks.emplace_back(inner);
}

Block Block::input(std::string outside, std::string inside) const {
  Block wired = *this;
  wired.inputs.push_back({std::move(outside), std::move(inside)});
  return wired;
}

Block Block::output(std::string outside, std::string inside) const {
  Block wired = *this;
  wired.outputs.push_back({std::move(outside), std::move(inside)});
  return wired;
}

Block Block::named(std::string own) const {
  Block other = *this;
  other.name = std::move(own);
  return other;
}

Block Block::share(std::string path) const {
  Block other = *this;
  other.shared = std::move(path);
  return other;
}

Block Layer::input(std::string name) const { return Block(*this).input(std::move(name)); }
Block Layer::output(std::string name) const { return Block(*this).output(std::move(name)); }
Block Layer::named(std::string name) const { return Block(*this).named(std::move(name)); }
Block Layer::share(std::string path) const { return Block(*this).share(std::move(path)); }

Group::Group(std::vector<Block> all) {
  type = "Group";
  blocks = std::move(all);
}

Input::Input(std::string own, Shape shape, DType dtype) {
  type = "Input";
  name = std::move(own);
  settings = {{"shape", std::move(shape)}, {"dtype", dtype}};
}

Parameter::Parameter(std::string own, const Sizes& shape, const init::Rule& rule) {
  static constexpr const char* kKinds[] = {"constant", "uniform", "normal"};
  type = "Parameter";
  name = std::move(own);
  settings = {{"shape", std::vector<Dim>(shape.begin(), shape.end())},
              {"init", kKinds[static_cast<int>(rule.kind)]},
              {"a", rule.a},
              {"b", rule.b},
              {"by_fan_in", rule.scale_by_fan_in}};
}

Constant::Constant(std::string own, Array array) {
  type = "Constant";
  name = std::move(own);
  value = std::move(array);
}

Call::Call(std::string op, const NamedAttrs& attrs) {
  type = "Call";
  settings.emplace_back("op", std::move(op));
  for (const NamedAttr& attr : attrs) settings.emplace_back(attr.name, attr.value);
}

namespace {

bool same_elements(const Array& a, const Array& b) {
  if (!a || !b) return !a && !b;
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  const Result<TensorData> left = a.data(), right = b.data();
  return left.ok() && right.ok() && have_same_bits(left->tensor, right->tensor);
}

}  // namespace

bool operator==(const Block& a, const Block& b) {
  return a.type == b.type && a.name == b.name && a.settings == b.settings && a.inputs == b.inputs &&
         a.outputs == b.outputs && a.blocks == b.blocks && a.shared == b.shared &&
         same_elements(a.value, b.value);
}

}  // namespace hg::nn
