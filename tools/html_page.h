// SPDX-License-Identifier: Apache-2.0
// A model as one self-contained web page: a graph to zoom and click, its modules, the arena over
// time, the time of each node, and histograms of weights.
#pragma once

#include <map>
#include <string>

#include "hg/graph.h"

namespace hg::tools {

struct PageParts {
  std::string title;
  std::string memory_svg;                     // result of draw_memory(); empty: sizes are open
  std::map<std::string, double> ms;           // by node; empty: no profile
  std::map<std::string, double> errors = {};  // of quantized states, by name
};

std::string html_page(const Graph& graph, const PageParts& parts);

}  // namespace hg::tools
