// SPDX-License-Identifier: Apache-2.0
// Source texts of the program's ops: "chunk(3)", "[:6]".
#pragma once

#include <map>
#include <span>
#include <string>

#include "converter/core/imported.h"
#include "converter/core/script.h"

namespace hg::convert {

// Returns the texts of the ops that produced the graph's values.
std::map<ValueId, std::string> texts_of_ops(const ScriptProgram& program,
                                            std::span<const Executed> trace);

}  // namespace hg::convert
