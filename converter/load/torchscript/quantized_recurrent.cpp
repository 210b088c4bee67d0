// SPDX-License-Identifier: Apache-2.0
// Recurrent layers and cells of dynamic quantization. They round the input of all steps together,
// and the state of each step by itself, so the steps are a loop (PyTorch's RNN.cpp).
#include <utility>

#include "converter/load/torchscript/quantized.h"
#include "converter/load/torchscript/quantized_lowering.h"

namespace hg::convert::quantized {

std::vector<ScriptId> Lowering::step(const ScriptNode& at, const Cell& cell, ScriptId gates,
                                     const std::vector<ScriptId>& states) {
  const ScriptId h = states.at(0);
  const ScriptId own = dynamic_linear(at, h, *cell.hh, cell.reduce);
  const auto one = [&](const char* op, ScriptId x) {
    return value(at, std::string("aten::") + op, {{"self", x}});
  };
  const auto two = [&](const char* op, ScriptId a, ScriptId b) {
    Arguments arguments = {{"self", a}, {"other", b}};
    if (std::string_view(op) != "mul") arguments.emplace_back("alpha", constant(at, 1));
    return value(at, std::string("aten::") + op, arguments, "Tensor");
  };
  if (cell.kind != "lstm" && cell.kind != "gru")
    return {one(cell.kind.c_str(), two("add", gates, own))};
  const Item levels = attribute(*cell.hh, "weight");
  const auto& weight =
      program_.tensors[static_cast<size_t>(std::get<ScriptTensorIndex>(levels.value).index)];
  const int64_t hidden = weight.data.tensor.shape[0] / (cell.kind == "lstm" ? 4 : 3);
  const auto part = [&](ScriptId of, int64_t i) {
    return value(at, "aten::slice",
                 {{"self", of},
                  {"dim", constant(at, -1)},
                  {"start", constant(at, i * hidden)},
                  {"end", constant(at, (i + 1) * hidden)},
                  {"step", constant(at, 1)}},
                 "Tensor");
  };
  if (cell.kind == "lstm") {  // i, f, g, o
    const ScriptId all = two("add", gates, own);
    const ScriptId c = two("add", two("mul", one("sigmoid", part(all, 1)), states.at(1)),
                           two("mul", one("sigmoid", part(all, 0)), one("tanh", part(all, 2))));
    return {two("mul", one("sigmoid", part(all, 3)), one("tanh", c)), c};
  }
  const ScriptId reset = one("sigmoid", two("add", part(own, 0), part(gates, 0)));
  const ScriptId kept = one("sigmoid", two("add", part(own, 1), part(gates, 1)));
  const ScriptId fresh = one("tanh", two("add", part(gates, 2), two("mul", part(own, 2), reset)));
  return {two("add", two("mul", two("sub", h, fresh), kept), fresh)};
}

std::vector<ScriptId> Lowering::scan(const ScriptNode& at, const Cell& cell, ScriptId x,
                                     std::vector<ScriptId> states, bool reverse) {
  const auto flipped = [&](ScriptId of) {
    auto dims = std::make_shared<List>();
    dims->items = {Item(int64_t{0})};
    return value(at, "aten::flip", {{"self", of}, {"dims", constant(at, dims)}});
  };
  ScriptId gates = dynamic_linear(at, x, *cell.ih, cell.reduce);
  if (reverse) gates = flipped(gates);
  const ScriptId all = list_of(at, {});
  const ScriptId time = value(at, "aten::size", {{"self", x}, {"dim", constant(at, 0)}}, "int");
  nodes_->back().output_types = {"int"};
  ScriptNode loop;
  loop.kind = "prim::Loop";
  loop.origin = at.origin;
  loop.inputs = {time, constant(at, true)};
  ScriptBlock body;
  body.inputs = {program_.value_count++};
  std::vector<ScriptId> before;
  for (const ScriptId state : states) {
    loop.inputs.push_back(state);
    loop.outputs.push_back(program_.value_count++);
    loop.output_types.emplace_back("Tensor");
    before.push_back(program_.value_count++);
    body.inputs.push_back(before.back());
  }
  std::vector<ScriptNode>* const outer = std::exchange(nodes_, &body.nodes);
  const ScriptId now =
      value(at, "aten::select",
            {{"self", gates}, {"dim", constant(at, 0)}, {"index", body.inputs[0]}}, "int");
  const std::vector<ScriptId> after = step(at, cell, now, before);
  emit(at, "aten::append", {{"self", all}, {"el", after[0]}}, -1, "t").output_types = {"Tensor[]"};
  body.outputs = {constant(at, true)};
  body.outputs.insert(body.outputs.end(), after.begin(), after.end());
  nodes_ = outer;
  std::vector<ScriptId> results = {-1};
  results.insert(results.end(), loop.outputs.begin(), loop.outputs.end());
  loop.blocks = {std::move(body)};
  keep(std::move(loop));
  results[0] = value(at, "aten::stack", {{"tensors", all}, {"dim", constant(at, 0)}});
  if (reverse) results[0] = flipped(results[0]);
  return results;
}

std::vector<ScriptId> Lowering::first_states(const ScriptNode& node) {
  const ScriptId hx = *argument_of(node, "hx");
  if (node.kind.find("lstm") == std::string::npos) return {hx};
  if (const auto* both = elements(hx); both != nullptr && both->size() == 2) return *both;
  std::vector<ScriptId> both;
  for (const int64_t i : {0, 1})
    both.push_back(
        value(node, "aten::__getitem__", {{"list", hx}, {"idx", constant(node, i)}}, "t"));
  return both;
}

void Lowering::lower_recurrent(ScriptNode&& node) {
  if (node.overload.starts_with("data"))
    return refuse(std::move(node), "packed sequences are not supported in quantized layers");
  const auto* params = elements(argument_of(node, "params").value_or(-1));
  const auto layers = number(node, "num_layers"), twice = number(node, "bidirectional"),
             dropout = number(node, "dropout"), train = number(node, "train"),
             batch_first = number(node, "batch_first");
  if (params == nullptr || !layers || !twice || !dropout || !train || !batch_first)
    return refuse(std::move(node), "weights and options must be constants of the file");
  if (*train != 0 && *dropout != 0 && *layers > 1)
    return refuse(std::move(node), "dropout must be inactive");
  const bool lstm = node.kind == "aten::quantized_lstm";
  const size_t directions = *twice != 0 ? 2 : 1;
  std::vector<Cell> cells;
  for (const ScriptId id : *params) {
    const Object* packed = object_of(id, kPackedCell);
    if (packed == nullptr)
      return refuse(std::move(node), "the packed weights are not an attribute of the model");
    const auto part = [&](const char* name) -> const Object* {
      const Item item = attribute(*packed, name);
      return item.is_object() ? std::get<std::shared_ptr<Object>>(item.value).get() : nullptr;
    };
    Cell cell{lstm ? "lstm" : "gru", part("ih"), part("hh")};
    if (cell.ih == nullptr || cell.hh == nullptr)
      return refuse(std::move(node), "only dynamic quantization to qint8 is supported");
    cell.reduce = std::get<bool>(attribute(*packed, "reduce_range").value);
    cells.push_back(std::move(cell));
  }
  if (cells.empty() || cells.size() != directions * static_cast<size_t>(*layers))
    return refuse(std::move(node), "it has the wrong number of weights");
  const auto turned = [&](ScriptId of, ScriptId result) {
    return emit(node, "aten::transpose",
                {{"self", of}, {"dim0", constant(node, 0)}, {"dim1", constant(node, 1)}}, result,
                "int")
        .outputs[0];
  };
  ScriptId x = *argument_of(node, "input");
  if (*batch_first != 0) x = turned(x, -1);
  const std::vector<ScriptId> first = first_states(node);
  std::vector<std::vector<ScriptId>> last(first.size());
  for (size_t i = 0; i < cells.size(); i += directions) {
    std::vector<ScriptId> both;
    for (size_t k = i; k < i + directions; ++k) {
      std::vector<ScriptId> states;
      for (const ScriptId all : first)
        states.push_back(value(node, "aten::select",
                               {{"self", all},
                                {"dim", constant(node, 0)},
                                {"index", constant(node, static_cast<int64_t>(k))}},
                               "int"));
      const std::vector<ScriptId> results = scan(node, cells[k], x, std::move(states), k > i);
      both.push_back(results[0]);
      for (size_t j = 0; j < last.size(); ++j) last[j].push_back(results[j + 1]);
    }
    x = both[0];
    if (directions == 2)
      x = value(node, "aten::cat", {{"tensors", list_of(node, both)}, {"dim", constant(node, 2)}});
  }
  if (*batch_first != 0)
    turned(x, node.outputs[0]);
  else
    emit(node, "aten::alias", {{"self", x}}, node.outputs[0]);
  for (size_t j = 0; j < last.size(); ++j)
    emit(node, "aten::stack", {{"tensors", list_of(node, last[j])}, {"dim", constant(node, 0)}},
         node.outputs.at(j + 1));
}

void Lowering::lower_cell(ScriptNode&& node) {
  const auto weights = [&](const char* name) {
    return object_of(argument_of(node, name).value_or(-1), kPackedWeights);
  };
  Cell cell{"", weights("w_ih"), weights("w_hh")};
  for (const char* kind : {"lstm", "gru", "tanh", "relu"})
    if (node.kind.find(kind) != std::string::npos) cell.kind = kind;
  if (cell.ih == nullptr || cell.hh == nullptr)
    return refuse(std::move(node), "the packed weights are not an attribute of the model");
  const ScriptId gates = dynamic_linear(node, *argument_of(node, "input"), *cell.ih, cell.reduce);
  const std::vector<ScriptId> after = step(node, cell, gates, first_states(node));
  for (size_t i = 0; i < after.size(); ++i)
    emit(node, "aten::alias", {{"self", after[i]}}, node.outputs.at(i));
}

}  // namespace hg::convert::quantized
