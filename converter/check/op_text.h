// SPDX-License-Identifier: Apache-2.0
// How an op of the program reads in its source: "chunk(3)", "[:6]".
#pragma once

#include <map>
#include <span>
#include <string>

#include "converter/core/imported.h"
#include "converter/core/script.h"

namespace hg::convert {

// Of the nodes that gave the values of the graph.
std::map<ValueId, std::string> texts_of_ops(const ScriptProgram& program,
                                            std::span<const Executed> trace);

}  // namespace hg::convert
