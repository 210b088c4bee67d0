// SPDX-License-Identifier: Apache-2.0
// The report about a program's weights, and parameters that methods write to.
#pragma once

#include <set>
#include <string>

#include "converter/core/script.h"
#include "hg/graph.h"

namespace hg::convert {

// Names the weights that contain NaN; empty if there are none.
std::string warning_of_weights(const ScriptProgram& program);

// Returns the names of the program's parameters that its graph writes to.
std::set<std::string> written_parameters(const Graph& graph, const ScriptProgram& program);
// Makes these parameters buffers with separate memory. Throws Refusal.
void keep_as_buffers(const std::set<std::string>& names, ScriptProgram& program);

}  // namespace hg::convert
