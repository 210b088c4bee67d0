// SPDX-License-Identifier: Apache-2.0
// Constants and control flow of ONNX graphs. Bodies can use names of the graphs around them.
#include <algorithm>
#include <cstdint>

#include "converter/core/allocated.h"
#include "converter/core/failure.h"
#include "converter/load/onnx/graph.h"

namespace hg::convert::onnx {
namespace {

const file::GraphProto& body_of(
    const std::map<std::string, const file::AttributeProto*>& attributes, const char* name,
    const file::NodeProto& node) {
  const auto found = attributes.find(name);
  if (found == attributes.end() || !found->second->has_g())
    throw Failure{Exit::unreadable, str_cat(node.op_type(), " '", node.name(), "' has no ", name)};
  return found->second->g();
}

std::vector<int64_t> integers(const std::map<std::string, const file::AttributeProto*>& attributes,
                              const char* name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return {};
  return {found->second->ints().begin(), found->second->ints().end()};
}

[[noreturn]] void fail_count(const file::NodeProto& node) {
  throw Failure{Exit::unreadable, str_cat(node.op_type(), " '", node.name(),
                                          "' has a body of other inputs or outputs than its own")};
}

// Returns whether `id` is the body's condition input, directly or through Identity nodes. That
// condition is true in every iteration.
bool is_passed_on(const ScriptBlock& body, ScriptId id, ScriptId condition) {
  for (auto node = body.nodes.rbegin(); node != body.nodes.rend() && id != condition; ++node)
    if (node->kind == "onnx::Identity" && node->outputs.at(0) == id) id = node->inputs.at(0);
  return id == condition;
}

}  // namespace

void GraphReader::read_constant(const file::NodeProto& node, const Attributes& attributes,
                                ScriptBlock& block, const Origin& origin) {
  if (attributes.empty() || node.output_size() < 1)
    throw Failure{Exit::unreadable, str_cat("Constant '", node.name(), "' has no value")};
  const file::AttributeProto& value = *attributes.begin()->second;
  ScriptTensor made;
  const auto keep = [&](DType dtype, const Sizes& shape, const auto& from) {
    TensorData data = allocated(dtype, shape);
    using Element = std::decay_t<decltype(*from.begin())>;
    std::copy(from.begin(), from.end(), data.tensor.as<Element>());
    made.data = std::move(data);
    program_.tensors.push_back(std::move(made));
    return Item(ScriptTensorIndex{static_cast<int32_t>(program_.tensors.size() - 1)});
  };
  Item item;
  switch (value.type()) {
    case file::AttributeProto::INT:
      item = keep(i64, {}, std::vector<int64_t>{value.i()});
      break;
    case file::AttributeProto::FLOAT:
      item = keep(f32, {}, std::vector<float>{value.f()});
      break;
    case file::AttributeProto::INTS:
      item = keep(i64, {value.ints_size()},
                  std::vector<int64_t>(value.ints().begin(), value.ints().end()));
      break;
    case file::AttributeProto::FLOATS:
      item = keep(f32, {value.floats_size()},
                  std::vector<float>(value.floats().begin(), value.floats().end()));
      break;
    case file::AttributeProto::STRING:
    case file::AttributeProto::STRINGS: {
      auto missing = std::make_shared<Object>();
      missing->type = "a tensor of string";
      item = Item(std::move(missing));
      break;
    }
    default:
      item = attribute_item(value);
  }
  const ScriptId id = fresh();
  add(block, "prim::Constant", {}, {id}, origin).constant = std::move(item);
  bind(node.output(0), id);
}

std::vector<ScriptId> GraphReader::read_body(const file::GraphProto& graph, ScriptBlock& block,
                                             const Place& place) {
  read_initializers(graph, block);
  read_nodes(graph.node(), block, place);
  std::vector<ScriptId> results;
  for (const file::ValueInfoProto& output : graph.output()) results.push_back(find(output.name()));
  return results;
}

void GraphReader::read_if(const file::NodeProto& node, const Attributes& attributes,
                          ScriptBlock& block, const Place& place, const Origin& origin) {
  if (node.input_size() < 1) fail_count(node);
  const ScriptId condition = number(block, find(node.input(0)), origin);
  std::vector<ScriptBlock> sides(2);
  for (int side = 0; side < 2; ++side) {
    const file::GraphProto& body =
        body_of(attributes, side == 0 ? "then_branch" : "else_branch", node);
    scopes_.emplace_back();
    ScriptBlock& into = sides[side];
    into.outputs = read_body(body, into, place);
    scopes_.pop_back();
    if (static_cast<int>(into.outputs.size()) != node.output_size()) fail_count(node);
  }
  add(block, "prim::If", {condition}, outputs_of(node), origin).blocks = std::move(sides);
}

// Makes the lists to which a loop appends its stacked results.
std::vector<ScriptId> GraphReader::empty_lists(int count, ScriptBlock& block,
                                               const Origin& origin) {
  std::vector<ScriptId> lists;
  for (int i = 0; i < count; ++i) {
    lists.push_back(fresh());
    add(block, "prim::ListConstruct", {}, {lists.back()}, origin).output_types = {"List[Tensor]"};
  }
  return lists;
}

void GraphReader::read_loop(const file::NodeProto& node, const Attributes& attributes,
                            ScriptBlock& block, const Place& place, const Origin& origin) {
  const file::GraphProto& body = body_of(attributes, "body", node);
  const int carried = std::max(0, node.input_size() - 2);
  const int stacked = body.output_size() - 1 - carried;
  if (body.input_size() != carried + 2 || stacked < 0 || node.output_size() > carried + stacked)
    fail_count(node);
  const bool counts = node.input_size() > 0 && !node.input(0).empty();
  const bool asks = node.input_size() > 1 && !node.input(1).empty();
  std::vector<ScriptId> inputs = {
      counts ? number(block, find(node.input(0)), origin) : constant(block, Item(INT64_MAX)),
      asks ? number(block, find(node.input(1)), origin) : constant(block, Item(true))};
  for (int i = 0; i < carried; ++i) inputs.push_back(find(node.input(i + 2)));
  const std::vector<ScriptId> lists = empty_lists(stacked, block, origin);
  ScriptBlock inner;
  scopes_.emplace_back();
  inner.inputs.push_back(fresh());
  const ScriptId counter = fresh(), yes = fresh();
  add(inner, "onnx.control::tensor", {inner.inputs[0]}, {counter}, origin);
  bind(body.input(0).name(), counter);
  // An iteration runs only if the condition is true.
  add(inner, "onnx.control::tensor", {constant(inner, Item(true))}, {yes}, origin);
  bind(body.input(1).name(), yes);
  for (int i = 0; i < carried; ++i) {
    inner.inputs.push_back(fresh());
    bind(body.input(i + 2).name(), inner.inputs.back());
  }
  const std::vector<ScriptId> results = read_body(body, inner, place);
  const bool may_end = asks && !is_passed_on(inner, results[0], yes);
  inner.outputs.push_back(may_end ? number(inner, results[0], origin)
                                  : constant(inner, Item(true)));
  for (int i = 0; i < carried; ++i) inner.outputs.push_back(results[i + 1]);
  for (int i = 0; i < stacked; ++i)
    add(inner, "aten::append", {lists[i], results[carried + i + 1]}, {fresh()}, origin);
  scopes_.pop_back();
  std::vector<ScriptId> outputs = outputs_of(node);
  outputs.resize(std::max(carried, node.output_size()), -1);
  for (ScriptId& id : outputs)
    if (id < 0) id = fresh();
  const auto split = outputs.begin() + carried;
  add(block, "prim::Loop", std::move(inputs), {outputs.begin(), split}, origin).blocks = {
      std::move(inner)};
  for (auto id = split; id != outputs.end(); ++id) {
    const ScriptId list = lists[id - split];
    ScriptNode& stack = add(block, "aten::stack", {list, constant(block, Item(0))}, {*id}, origin);
    stack.argument_names = {"tensors", "dim"};
  }
}

void GraphReader::read_scan(const file::NodeProto& node, const Attributes& attributes,
                            ScriptBlock& block, const Place& place, const Origin& origin) {
  const bool is_batched = version_of("", place) < 9;
  if (is_batched && node.input_size() > 0 && !node.input(0).empty()) {
    add(block, "onnx::Scan", {}, outputs_of(node), origin).trouble =
        "Scan of opset 8 with sequence_lens is not supported";
    return;
  }
  std::vector<ScriptId> inputs, outputs = outputs_of(node);
  for (int i = is_batched ? 1 : 0; i < node.input_size(); ++i)
    inputs.push_back(find(node.input(i)));
  for (ScriptId& id : outputs)
    if (id < 0) id = fresh();
  if (!is_batched) return scan(node, attributes, inputs, std::move(outputs), block, place, origin);
  if (inputs.empty()) fail_count(node);
  // A loop over the first dim of all inputs; outputs are stacked along their first dim.
  const auto select = [&](ScriptBlock& into, ScriptId from, ScriptId index) {
    const ScriptId element = fresh();
    add(into, "aten::select", {from, constant(into, Item(0)), index}, {element}, origin)
        .argument_names = {"self", "dim", "index"};
    return element;
  };
  const ScriptId length = fresh();
  add(block, "aten::size", {inputs.back(), constant(block, Item(0))}, {length}, origin)
      .output_types = {"int"};
  block.nodes.back().argument_names = {"self", "dim"};
  const std::vector<ScriptId> lists = empty_lists(static_cast<int>(outputs.size()), block, origin);
  ScriptBlock inner;
  scopes_.emplace_back();
  inner.inputs.push_back(fresh());
  std::vector<ScriptId> elements, results(outputs.size());
  for (const ScriptId id : inputs) elements.push_back(select(inner, id, inner.inputs[0]));
  for (ScriptId& id : results) id = fresh();
  scan(node, attributes, elements, results, inner, place, origin);
  inner.outputs.push_back(constant(inner, Item(true)));
  for (size_t i = 0; i < lists.size(); ++i)
    add(inner, "aten::append", {lists[i], results[i]}, {fresh()}, origin);
  scopes_.pop_back();
  add(block, "prim::Loop", {length, constant(block, Item(true))}, {}, origin).blocks = {
      std::move(inner)};
  for (size_t i = 0; i < lists.size(); ++i)
    add(block, "aten::stack", {lists[i], constant(block, Item(0))}, {outputs[i]}, origin)
        .argument_names = {"tensors", "dim"};
}

// Scan without a batch, of given inputs.
void GraphReader::scan(const file::NodeProto& node, const Attributes& attributes,
                       const std::vector<ScriptId>& given, std::vector<ScriptId> outputs,
                       ScriptBlock& block, const Place& place, const Origin& origin) {
  const file::GraphProto& body = body_of(attributes, "body", node);
  const auto declared = attributes.find("num_scan_inputs");
  const int scanned = declared == attributes.end() ? 0 : static_cast<int>(declared->second->i());
  const int count = static_cast<int>(given.size());
  const int carried = count - scanned, stacked = body.output_size() - carried;
  if (scanned < 1 || carried < 0 || stacked < 0 || body.input_size() != count ||
      node.output_size() > carried + stacked)
    fail_count(node);
  const auto entry = [](const std::vector<int64_t>& values, int i) {
    return static_cast<size_t>(i) < values.size() ? values[i] : 0;
  };
  const std::vector<int64_t> in_axes = integers(attributes, "scan_input_axes"),
                             in_reversed = integers(attributes, version_of("", place) < 9
                                                                    ? "directions"
                                                                    : "scan_input_directions"),
                             out_axes = integers(attributes, "scan_output_axes"),
                             out_reversed = integers(attributes, "scan_output_directions");
  std::vector<ScriptId> sources;
  for (int i = 0; i < scanned; ++i) {
    ScriptId source = given[carried + i];
    if (entry(in_reversed, i) != 0) {
      const ScriptId flipped = fresh();
      auto dims = std::make_shared<List>();
      dims->items = {Item(entry(in_axes, i))};
      add(block, "aten::flip", {source, constant(block, Item(dims))}, {flipped}, origin)
          .argument_names = {"self", "dims"};
      source = flipped;
    }
    sources.push_back(source);
  }
  const ScriptId length = fresh();
  add(block, "aten::size", {sources[0], constant(block, Item(entry(in_axes, 0)))}, {length}, origin)
      .output_types = {"int"};
  block.nodes.back().argument_names = {"self", "dim"};
  std::vector<ScriptId> inputs = {length, constant(block, Item(true))};
  for (int i = 0; i < carried; ++i) inputs.push_back(given[i]);
  const std::vector<ScriptId> lists = empty_lists(stacked, block, origin);
  ScriptBlock inner;
  scopes_.emplace_back();
  inner.inputs.push_back(fresh());
  for (int i = 0; i < carried; ++i) {
    inner.inputs.push_back(fresh());
    bind(body.input(i).name(), inner.inputs.back());
  }
  for (int i = 0; i < scanned; ++i) {
    const ScriptId element = fresh();
    add(inner, "aten::select",
        {sources[i], constant(inner, Item(entry(in_axes, i))), inner.inputs[0]}, {element}, origin)
        .argument_names = {"self", "dim", "index"};
    bind(body.input(carried + i).name(), element);
  }
  const std::vector<ScriptId> results = read_body(body, inner, place);
  inner.outputs.push_back(constant(inner, Item(true)));
  for (int i = 0; i < carried; ++i) inner.outputs.push_back(results[i]);
  for (int i = 0; i < stacked; ++i)
    add(inner, "aten::append", {lists[i], results[carried + i]}, {fresh()}, origin);
  scopes_.pop_back();
  while (static_cast<int>(outputs.size()) < carried) outputs.push_back(fresh());
  const auto split = outputs.begin() + carried;
  add(block, "prim::Loop", std::move(inputs), {outputs.begin(), split}, origin).blocks = {
      std::move(inner)};
  for (auto id = split; id != outputs.end(); ++id) {
    const int i = static_cast<int>(id - split);
    const bool flips = entry(out_reversed, i) != 0;
    const ScriptId stacked_id = flips ? fresh() : *id;
    const ScriptId axis = constant(block, Item(entry(out_axes, i)));
    add(block, "aten::stack", {lists[i], axis}, {stacked_id}, origin).argument_names = {"tensors",
                                                                                        "dim"};
    if (!flips) continue;
    auto dims = std::make_shared<List>();
    dims->items = {Item(entry(out_axes, i))};
    add(block, "aten::flip", {stacked_id, constant(block, Item(dims))}, {*id}, origin)
        .argument_names = {"self", "dims"};
  }
}

}  // namespace hg::convert::onnx
