// SPDX-License-Identifier: Apache-2.0
// A conversion in a separate process; only the answer and the .hgm file leave it.
#pragma once

#include <cstdint>

#include "converter/cli/answer.h"
#include "converter/sandbox/process.h"

namespace hg::convert {

// As convert() followed by answer_of(). Reads the file that the process returns, and writes it
// again. Never throws.
Answer convert_in_sandbox(const Job& job, int64_t memory_mib, bool with_json, const Tell& progress);

}  // namespace hg::convert
