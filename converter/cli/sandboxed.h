// SPDX-License-Identifier: Apache-2.0
// A conversion in a separate process; only the answer and the .hgm file leave it.
#pragma once

#include <cstdint>

#include "converter/cli/answer.h"
#include "converter/sandbox/process.h"

namespace hg::convert {

// As convert() and answer_of(). The file that the process hands over is read and written again
// here. Never throws.
Answer convert_in_sandbox(const Job& job, int64_t memory_mib, bool with_json, const Tell& progress);

}  // namespace hg::convert
