// SPDX-License-Identifier: Apache-2.0
// The guards of an exported program: the conditions on inputs under which its trace is valid.
#pragma once

#include <functional>
#include <string>

#include "converter/load/exported/graph.h"

namespace hg::convert {

// Reads the guard, a line of Python such as "L['x'].size()[0] % 8 == 0", as a node of the block.
// `input` returns the value of the input with a given torch.export name ("x", "tree_a_0"), or null.
// Throws Refusal if the guard is not an expression of numbers and sizes.
void read_guard(const std::string& line,
                const std::function<const ExportedGraph::Value*(const std::string&)>& input,
                ExportedGraph& graph, ScriptBlock& block);
// Returns "x.shape[0] > 3" for "L['x'].size()[0] > 3"; shortens a long guard to its beginning.
std::string guard_in_words(const std::string& line);

}  // namespace hg::convert
