// SPDX-License-Identifier: Apache-2.0
// Runs a template.
#pragma once

#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/text/jinja/syntax.h"

namespace hg::jinja {

// Renders the template with the variables. Error messages begin with `name`. `now` may be null.
Result<std::string> run(const Body& body, std::vector<std::pair<std::string, Value>> variables,
                        const std::tm* now, std::string_view name);

}  // namespace hg::jinja
