// SPDX-License-Identifier: Apache-2.0
// The ids that end a sequence, from the files of a language model.
#pragma once

#include <cstdint>
#include <vector>

#include "hg/model.h"

namespace hg::tools {

// Returns eos_token_id of the attachment generation_config.json: a number, a list, or nothing.
// Fails with corrupt_model for other values.
Result<std::vector<int32_t>> stop_ids_of(const Model& model);

}  // namespace hg::tools
