// SPDX-License-Identifier: Apache-2.0
// Non-tensor arguments of forward, given as constants: --constant sr=16000.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "converter/core/job.h"
#include "converter/core/script.h"

namespace hg::convert {

// "sr=16000"
ConstantOption parse_constant(std::string_view text);  // throws Failure (usage)

// Makes the arguments constants of the program. Throws Failure (usage) if the argument does not
// exist, or if its type does not accept the value. With `takes_tensors`, values of tensor arguments
// are file names: shape=FILE.npy.
void apply_constants(ScriptProgram& program, const std::vector<ConstantOption>& constants,
                     bool takes_tensors);
// Returns whether an argument of the type can be a constant: int, float, bool, str, and optionals,
// lists and tuples of these.
bool takes_constant(const std::string& type);

}  // namespace hg::convert
