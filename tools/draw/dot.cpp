// SPDX-License-Identifier: Apache-2.0
#include "tools/draw/dot.h"

#include <map>

#include "tools/draw/graph_boxes.h"

namespace hg::tools {
namespace {

// A string of DOT: a backslash starts an escape sequence, and "\\l" ends a left-aligned line.
std::string dot_text(std::string_view from, bool is_line = false) {
  std::string to;
  for (const char c : from) {
    if (c == '"' || c == '\\') to += '\\';
    to += c == '\n' ? ' ' : c;
  }
  return is_line ? to + "\\l" : "\"" + to + "\"";
}

// The modules of a graph as a tree; each has the boxes that are in it but in no inner module.
struct Module {
  std::map<std::string, Module> inside;
  std::vector<int> boxes;
  int count() const {
    int sum = static_cast<int>(boxes.size());
    for (const auto& [name, module] : inside) sum += module.count();
    return sum;
  }
};

std::string box_text(const Box& box, int index) {
  const BoxStyle& style = style_of(box.kind);
  std::string label = dot_text(box.side.empty() ? box.title : box.title + "  " + box.side, true);
  for (const std::string& line : box.lines) label += dot_text(line, true);
  const bool is_end = box.kind == BoxKind::input || box.kind == BoxKind::output;
  return str_cat("n", index, " [label=\"", label,
                 "\" style=", is_end ? "\"filled,rounded\"" : "filled",
                 " fillcolor=", dot_text(style.fill), " color=", dot_text(style.stroke),
                 " tooltip=", dot_text(box.tooltip), "];\n");
}

void write(const GraphBoxes& graph, const Module& module, int& clusters, std::string& out) {
  for (const int index : module.boxes) out += box_text(graph.boxes[index], index);
  for (const auto& [name, inner] : module.inside) {
    const bool is_cluster = inner.count() > 1;
    if (is_cluster)
      out += str_cat("subgraph cluster", clusters++, " {\nlabel=", dot_text(name), ";\n");
    write(graph, inner, clusters, out);
    if (is_cluster) out += "}\n";
  }
}

}  // namespace

std::string graph_as_dot(const Graph& graph, const std::string& title) {
  const GraphBoxes boxes = boxes_of(graph);
  Module root;
  for (size_t i = 0; i < boxes.boxes.size(); ++i) {
    Module* at = &root;
    for (const std::string& module : modules_around(boxes.boxes[i].module))
      at = &at->inside[module];
    at->boxes.push_back(static_cast<int>(i));
  }
  std::string out = str_cat("digraph ", dot_text(title), " {\nlabel=", dot_text(title),
                            ";\nlabelloc=t;\nfontname=\"sans-serif\";\ncolor=\"#d5dce3\";\n"
                            "node [shape=box fontname=\"sans-serif\" fontsize=11];\n"
                            "edge [color=\"#7b8794\"];\n");
  int clusters = 0;
  write(boxes, root, clusters, out);
  for (const Arrow& arrow : boxes.arrows) out += str_cat("n", arrow.from, " -> n", arrow.to, ";\n");
  return out + "}\n";
}

}  // namespace hg::tools
