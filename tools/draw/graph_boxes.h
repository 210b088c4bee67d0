// SPDX-License-Identifier: Apache-2.0
// A graph as boxes with text and arrows, the input of drawings of all formats.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hg/graph.h"

namespace hg::tools {

// The kind of a box, derived from the op's row and its inputs, not from its name.
enum class BoxKind {
  input,
  output,
  weighted,
  scaled,
  pointwise,
  reducing,
  moving,
  controlling,
  other
};
struct BoxStyle {
  std::string_view fill, stroke, words;
};
const BoxStyle& style_of(BoxKind kind);

struct Box {
  BoxKind kind = BoxKind::other;
  std::string title, side;  // side: in small print next to the title
  std::vector<std::string> lines;
  std::string module;
  std::string tooltip;
};
struct Arrow {
  int from = 0, to = 0;
};
struct GraphBoxes {
  std::vector<Box> boxes;
  std::vector<Arrow> arrows;  // each once
};

// Inputs, nodes in order, outputs, and the states that a run updates.
GraphBoxes boxes_of(const Graph& graph);

// Returns "a", "a.b" and "a.b.c" for "a.b.c".
std::vector<std::string> modules_around(const std::string& module);

}  // namespace hg::tools
