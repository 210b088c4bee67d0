// SPDX-License-Identifier: Apache-2.0
// Runs a script program on symbolic tensors. In-place ops become pure. Containers, shape arithmetic
// and constant control flow are resolved. Each aten op adds nodes through its row.
#pragma once

#include <span>

#include "converter/core/imported.h"
#include "converter/core/script.h"
#include "hg/op.h"

namespace hg::convert {

// If the program does not decide a fork, the side that can be imported is taken. The registry and
// the program must outlive the result.
Imported import_program(const ScriptProgram& program, std::span<const InputSpec> inputs,
                        const Registry& registry);

}  // namespace hg::convert
