// SPDX-License-Identifier: Apache-2.0
// Counts the contents of a graph and describes them as text and as JSON.
#include "tools/describe.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "hg/op.h"
#include "tools/command_line/words.h"

namespace hg::tools {
namespace {

void count_ops(const Graph& graph, std::map<std::string, int>& counts) {
  for (const Node& node : graph.nodes()) {
    counts[std::string(node.op->name())] += 1;
    for (const std::shared_ptr<Graph>& subgraph : node.subgraphs) count_ops(*subgraph, counts);
  }
}

void count_states(const Graph& graph, Description& out) {
  for (const State& state : graph.states()) {
    Description::States& sum = state.kind == State::Kind::parameter ? out.parameters
                               : state.kind == State::Kind::buffer  ? out.buffers
                                                                    : out.constants;
    sum.tensors += 1;
    sum.elements += state.data.tensor.count();
    sum.bytes += state.data.tensor.bytes();
  }
  for (const Node& node : graph.nodes()) {
    for (const std::shared_ptr<Graph>& subgraph : node.subgraphs) count_states(*subgraph, out);
  }
}

// Also lists guards in control flow bodies.
void list_guards(const Graph& graph, std::vector<std::string>& out) {
  for (const Guard& guard : graph.guards()) out.push_back(str_cat(guard));
  for (const Node& node : graph.nodes())
    for (const std::shared_ptr<Graph>& subgraph : node.subgraphs) list_guards(*subgraph, out);
}

std::string states_text(const Description::States& states) {
  return str_cat(states.tensors, " tensors, ", count_text(static_cast<double>(states.elements)),
                 " elements, ", bytes_text(states.bytes));
}

nlohmann::ordered_json states_json(const Description::States& states) {
  return {{"tensors", states.tensors}, {"elements", states.elements}, {"bytes", states.bytes}};
}

// Sizes that depend on symbols become strings: ["n", 3, "2*h"].
nlohmann::ordered_json type_json(std::string_view name, const TensorType& type) {
  nlohmann::ordered_json shape = nlohmann::ordered_json::array();
  for (const Dim& dim : type.shape) {
    if (dim.is_constant()) {
      shape.push_back(dim.constant());
    } else {
      shape.push_back(str_cat(dim));
    }
  }
  return {{"name", name}, {"dtype", hg::to_string(type.dtype)}, {"shape", shape}};
}

// "NAME: TYPE" of each.
std::vector<std::string> input_lines(const Graph& graph) {
  std::vector<std::string> lines;
  for (const ValueId id : graph.inputs())
    lines.push_back(str_cat(graph.value_info(id).name, ": ", graph.value_info(id).type));
  return lines;
}
std::vector<std::string> output_lines(const Graph& graph) {
  std::vector<std::string> lines;
  for (const auto& [name, id] : graph.outputs())
    lines.push_back(str_cat(name, ": ", graph.value_info(id).type));
  return lines;
}

// "area(w: f32[n], h: f32[n]) -> a: f32[n]"
std::string entry_text(const Model& entry, const std::string& name) {
  const Graph& graph = entry.graph();
  std::string in, out;
  for (const std::string& line : join_numbered(input_lines(graph)))
    in += str_cat(in.empty() ? "" : ", ", line);
  for (const std::string& line : join_numbered(output_lines(graph)))
    out += str_cat(out.empty() ? "" : ", ", line);
  return str_cat("  entry       ", name, "(", in, ")", out.empty() ? "" : " -> ", out, "\n");
}

nlohmann::ordered_json entry_json(const Model& entry, const std::string& name) {
  const Graph& graph = entry.graph();
  nlohmann::ordered_json out = {{"name", name},
                                {"inputs", nlohmann::ordered_json::array()},
                                {"outputs", nlohmann::ordered_json::array()}};
  for (const ValueId id : graph.inputs())
    out["inputs"].push_back(type_json(graph.value_info(id).name, graph.value_info(id).type));
  for (const auto& [result, id] : graph.outputs())
    out["outputs"].push_back(type_json(result, graph.value_info(id).type));
  return out;
}

// Names and sizes of attachments.
std::string attachments_text(const Model& model) {
  std::string out;
  for (const Model::Attachment& each : model.info().attachments)
    out += str_cat("  attached    ", each.name, ", ",
                   bytes_text(static_cast<int64_t>(each.content.size())), "\n");
  return out;
}

void add_attachments(const Model& model, nlohmann::ordered_json& out) {
  for (const Model::Attachment& each : model.info().attachments)
    out["attachments"].push_back({{"name", each.name}, {"bytes", each.content.size()}});
}

}  // namespace

Description describe(const Model& model, const std::string& file) {
  Description out;
  out.file = file;
  count_states(model.graph(), out);
  list_guards(model.graph(), out.guards);
  std::map<std::string, int> counts;
  count_ops(model.graph(), counts);
  out.ops.assign(counts.begin(), counts.end());
  std::stable_sort(out.ops.begin(), out.ops.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

std::string description_text(const Model& model, const Description& d) {
  const Graph& graph = model.graph();
  const Model::Info& info = model.info();
  std::string out = str_cat(d.file, "\n");
  if (!info.producer.empty()) out += str_cat("  made by     ", info.producer, "\n");
  if (!info.source.empty()) out += str_cat("  from        ", info.source, "\n");
  for (const std::string& way : info.not_exercised)
    out += str_cat("  unproven    not exercised: ", way, "\n");
  for (const std::string& line : join_numbered(input_lines(graph)))
    out += str_cat("  input       ", line, "\n");
  for (const std::string& line : join_numbered(output_lines(graph)))
    out += str_cat("  output      ", line, "\n");
  for (const std::string& guard : d.guards) out += str_cat("  only for    ", guard, "\n");
  out += str_cat("  parameters  ", states_text(d.parameters), "\n");
  if (d.buffers.tensors > 0) out += str_cat("  buffers     ", states_text(d.buffers), "\n");
  if (d.constants.tensors > 0) out += str_cat("  constants   ", states_text(d.constants), "\n");
  if (const auto& states = info.quantized; !states.empty()) {
    const auto worst =
        std::max_element(states.begin(), states.end(),
                         [](const auto& a, const auto& b) { return a.error < b.error; });
    out += str_cat("  quantized   ", uint64_t{states.size()},
                   states.size() == 1 ? " tensor" : " tensors", ", off by ",
                   percent_text(worst->error), " at most ('", worst->name, "')\n");
  }
  out += attachments_text(model);
  if (d.plan) {
    for (const auto& [symbol, size] : d.dims)
      out += str_cat("  with        ", symbol, " = ", size, "\n");
    const Memory& m = d.plan->memory;
    out += str_cat("  work        ", count_text(d.plan->flops), "FLOP\n");
    out += str_cat("  memory      ", bytes_text(m.peak_bytes), " peak: arena ",
                   bytes_text(m.arena_bytes), " (lower bound ", bytes_text(m.arena_lower_bound),
                   "), packed weights ", bytes_text(m.packed_bytes), "; weights of the file ",
                   bytes_text(m.weights_bytes), "\n");
  } else {
    out += str_cat("  memory      ", d.no_plan, "\n");
  }
  int total = 0;
  for (const auto& [op, count] : d.ops) total += count;
  out += str_cat("  ops         ", total, "\n");
  for (const auto& [op, count] : d.ops) {
    std::string digits = str_cat(count);
    out += str_cat(std::string(digits.size() < 6 ? 12 - digits.size() : 6, ' '), digits, "  ", op,
                   "\n");
  }
  return out;
}

std::string description_json(const Model& model, const Description& d) {
  const Graph& graph = model.graph();
  nlohmann::ordered_json out = {{"file", d.file},
                                {"producer", model.info().producer},
                                {"source", model.info().source},
                                {"source_hash", model.info().source_hash},
                                {"not_exercised", model.info().not_exercised},
                                {"inputs", nlohmann::ordered_json::array()},
                                {"outputs", nlohmann::ordered_json::array()},
                                {"symbols", graph.symbols()},
                                {"guards", d.guards},
                                {"parameters", states_json(d.parameters)},
                                {"buffers", states_json(d.buffers)},
                                {"constants", states_json(d.constants)},
                                {"ops", nlohmann::ordered_json::object()}};
  for (ValueId id : graph.inputs()) {
    const ValueInfo& value = graph.value_info(id);
    out["inputs"].push_back(type_json(value.name, value.type));
  }
  for (const auto& [name, id] : graph.outputs()) {
    out["outputs"].push_back(type_json(name, graph.value_info(id).type));
  }
  for (const Model::QuantizedState& state : model.info().quantized)
    out["quantized"].push_back({{"name", state.name}, {"error", state.error}});
  add_attachments(model, out);
  for (const auto& [op, count] : d.ops) out["ops"][op] = count;
  for (const auto& [symbol, size] : d.dims) out["dims"][symbol] = size;
  if (d.plan) {
    const Memory& m = d.plan->memory;
    out["flops"] = d.plan->flops;
    out["memory"] = {{"peak_bytes", m.peak_bytes},
                     {"arena_bytes", m.arena_bytes},
                     {"arena_lower_bound_bytes", m.arena_lower_bound},
                     {"weights_bytes", m.weights_bytes},
                     {"packed_bytes", m.packed_bytes}};
  } else {
    out["no_plan"] = d.no_plan;
  }
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string entries_text(const Model& model, const std::string& file) {
  std::string out = str_cat(file, "\n");
  if (!model.info().producer.empty()) out += str_cat("  made by     ", model.info().producer, "\n");
  for (const std::string& name : model.entries()) out += entry_text(*model.entry(name), name);
  return out + attachments_text(model);
}

std::string entries_json(const Model& model, const std::string& file) {
  nlohmann::ordered_json out = {{"file", file},
                                {"producer", model.info().producer},
                                {"entries", nlohmann::ordered_json::array()}};
  for (const std::string& name : model.entries())
    out["entries"].push_back(entry_json(*model.entry(name), name));
  add_attachments(model, out);
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string ops_text(const Registry& registry) {
  std::string out = "| op | what | signature |\n|---|---|---|\n";
  for (const Op* op : registry.ops()) {
    const char* what = (op->def.traits & kControl) != 0 ? "control"
                       : op->def.view != nullptr        ? "view"
                       : op->def.infer == nullptr       ? "composite"
                       : op->def.expand != nullptr      ? "fused"
                                                        : "primitive";
    out += str_cat("| ", op->name(), " | ", what, " | `", op->def.signature, "` |\n");
  }
  return out;
}

}  // namespace hg::tools
