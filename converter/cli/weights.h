// SPDX-License-Identifier: Apache-2.0
// What the report says of a program's weights, and parameters that methods write to.
#pragma once

#include <set>
#include <string>

#include "converter/core/script.h"
#include "hg/graph.h"

namespace hg::convert {

// Names the weights that hold NaN; empty: none does.
std::string warning_of_weights(const ScriptProgram& program);

// Names of the program's parameters that its graph writes to.
std::set<std::string> written_parameters(const Graph& graph, const ScriptProgram& program);
// Makes these parameters buffers with memory of their own. Throws Refusal.
void keep_as_buffers(const std::set<std::string>& names, ScriptProgram& program);

}  // namespace hg::convert
