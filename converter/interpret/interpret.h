// SPDX-License-Identifier: Apache-2.0
// Runs a script program on symbolic tensors: in-place ops become pure, containers, shape arithmetic
// and constant control flow are resolved, and each aten op adds nodes through its row.
#pragma once

#include <span>

#include "converter/core/imported.h"
#include "converter/core/script.h"
#include "hg/op.h"

namespace hg::convert {

// Of forks that the program does not tell, the way is taken that can be imported. The registry and
// the program must outlive the result.
Imported import_program(const ScriptProgram& program, std::span<const InputSpec> inputs,
                        const Registry& registry);

}  // namespace hg::convert
