// SPDX-License-Identifier: Apache-2.0
// The `post_processor` of a tokenizer.json: adds tokens before and after the ids of a text.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lib/text/json_fields.h"

namespace hg {

using PostProcessor = std::function<std::vector<int32_t>(std::vector<int32_t>, bool add_special)>;

// The post-processor of a JSON value; null adds nothing.
Result<PostProcessor> post_processor_from(const JsonAt& json, int depth = 0);

}  // namespace hg
