// SPDX-License-Identifier: Apache-2.0
#include "lib/graph/symbols.h"

#include <algorithm>

namespace hg {

bool has_symbol(const Attr& attr) {
  if (const Dim* dim = std::get_if<Dim>(&attr.value)) return !dim->is_constant();
  if (const auto* dims = std::get_if<std::vector<Dim>>(&attr.value)) return !is_constant(*dims);
  return false;
}

void collect_symbols(const Node& node, std::vector<std::string>& out) {
  for (const Attr& attr : node.attrs) {
    if (const Dim* dim = std::get_if<Dim>(&attr.value)) dim->collect_symbols(out);
    if (const auto* dims = std::get_if<std::vector<Dim>>(&attr.value))
      for (const Dim& dim : *dims) dim.collect_symbols(out);
  }
  for (const auto& subgraph : node.subgraphs)
    for (std::string& symbol : outer_symbols(*subgraph)) out.push_back(std::move(symbol));
}

std::vector<std::string> guarded_symbols(const Graph& graph) {
  std::vector<std::string> symbols;
  for (const Guard& guard : graph.guards())
    for (const Dim* side : {&guard.left, &guard.right}) side->collect_symbols(symbols);
  return symbols;
}

std::vector<std::string> outer_symbols(const Graph& graph) {
  std::vector<std::string> named = guarded_symbols(graph), own = graph.symbols();
  for (const Node& node : graph.nodes()) {
    collect_symbols(node, named);
    for (const Dim& dim : GraphAccess::fresh_symbols(graph, node)) own.emplace_back(dim.symbol());
  }
  std::sort(named.begin(), named.end());
  named.erase(std::unique(named.begin(), named.end()), named.end());
  std::erase_if(named, [&](const std::string& symbol) {
    return std::find(own.begin(), own.end(), symbol) != own.end();
  });
  return named;
}

}  // namespace hg
