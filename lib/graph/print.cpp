// SPDX-License-Identifier: Apache-2.0
// Prints a graph as text. Omits attributes that have their default. Prints long parts of sizes
// once, below the inputs.
#include "lib/graph/access.h"
#include "lib/graph/dim_text.h"

namespace hg {
namespace {

void append_indent(std::string& out, int depth) { out.append(static_cast<size_t>(2 * depth), ' '); }

void append_graph(std::string& out, const Graph& graph, const SizeNames& sizes, int depth);

void append_node(std::string& out, const Graph& graph, const SizeNames& sizes, const Node& node,
                 int depth) {
  append_indent(out, depth);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (i > 0) out.append(", ");
    out.append(graph.value_info(node.outputs[i]).name);
  }
  out.append(" = ").append(node.op->name()).push_back('(');
  bool first = true;
  const auto separate = [&] {
    if (!first) out.append(", ");
    first = false;
  };
  for (const ValueId id : node.inputs) {
    separate();
    out.append(id == kNoValue ? std::string("none") : graph.value_info(id).name);
  }
  for (size_t i = 0; i < node.attrs.size(); ++i) {
    const Signature::Attribute& attribute = node.op->signature.attributes[i];
    if (!attribute.required && node.attrs[i] == attribute.fallback) continue;
    separate();
    out.append(attribute.name).append("=");
    sizes.append(out, node.attrs[i]);
  }
  out.append(") : ");
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (i > 0) out.append(", ");
    sizes.append(out, graph.value_info(node.outputs[i]).type);
  }
  if (!node.origin.module.empty()) out.append("  # ").append(node.origin.module);
  out.push_back('\n');
  for (const auto& subgraph : node.subgraphs) append_graph(out, *subgraph, sizes, depth + 1);
}

void append_graph(std::string& out, const Graph& graph, const SizeNames& sizes, int depth) {
  append_indent(out, depth);
  out.append("graph(");
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueInfo& info = graph.value_info(graph.inputs()[i]);
    if (i > 0) out.append(", ");
    out.append(info.name).append(": ");
    sizes.append(out, info.type);
  }
  out.append(")\n");
  for (size_t i = 0; depth == 0 && i < sizes.definitions().size(); ++i) {
    append_indent(out, 1);
    out.append(str_cat("@", uint64_t{i}, " = ", sizes.definitions()[i], "\n"));
  }
  for (const State& state : graph.states()) {
    append_indent(out, depth + 1);
    constexpr std::string_view kKinds[] = {"parameter ", "buffer ", "constant "};
    out.append(kKinds[static_cast<size_t>(state.kind)]).append(state.name).append(": ");
    append_text(out, graph.value_info(state.value).type);
    for (const std::string& alias : state.aliases) out.append(" = ").append(alias);
    if (!state.requires_grad) out.append(", requires_grad=false");
    out.push_back('\n');
  }
  for (const Guard& guard : graph.guards()) {
    append_indent(out, depth + 1);
    out.append("guard ").append(str_cat(guard)).push_back('\n');
  }
  for (const Node& node : graph.nodes()) append_node(out, graph, sizes, node, depth + 1);
  for (const auto& [target, source] : graph.assignments()) {
    append_indent(out, depth + 1);
    out.append(graph.value_info(target).name).append(" := ");
    out.append(graph.value_info(source).name).push_back('\n');
  }
  append_indent(out, depth + 1);
  out.append("return ");
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const auto& [name, id] = graph.outputs()[i];
    if (i > 0) out.append(", ");
    out.append(name).append(" = ").append(graph.value_info(id).name);
  }
  out.push_back('\n');
}

}  // namespace

std::string Graph::text() const {
  std::string out;
  SizeNames sizes;
  sizes.add(*this);
  append_graph(out, *this, sizes, 0);
  return out;
}

}  // namespace hg
