// SPDX-License-Identifier: Apache-2.0
// Reads a program that torch.export.save wrote (.pt2) into a ScriptProgram, without libtorch. The
// archive holds the graph as JSON and the weights as raw bytes. torch/_export/serde/schema.py
// specifies the JSON.
#pragma once

#include <string>
#include <vector>

#include "converter/load/load.h"

namespace hg::convert {

// `label` replaces the path in messages. Throws Failure.
Loaded load_exported(const std::string& path, const std::string& label,
                     const std::vector<CustomOp>& custom);

}  // namespace hg::convert
