// SPDX-License-Identifier: Apache-2.0
// The patterns of a tokenizer.json: {"String": text} or {"Regex": expression}.
#pragma once

#include "lib/text/json_fields.h"
#include "lib/text/regex.h"

namespace hg {

Result<Regex> pattern_from(const JsonAt& json);

}  // namespace hg
