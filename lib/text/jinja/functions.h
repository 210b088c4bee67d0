// SPDX-License-Identifier: Apache-2.0
// The functions that every template can call.
#pragma once

#include <string_view>

#include "lib/text/jinja/call.h"

namespace hg::jinja {

// Returns undefined for an unknown name. Fails for functions of jinja2 that this library lacks.
Result<Value> find_function(std::string_view name);

}  // namespace hg::jinja
