// SPDX-License-Identifier: Apache-2.0
// The filters of templates, `value | name(arguments)`.
#pragma once

#include <string_view>

#include "lib/text/jinja/call.h"

namespace hg::jinja {

struct Filter {
  std::string_view name;
  // The value is the first argument of the call.
  Result<Value> (*run)(Call&);
};
// Null if there is no filter with this name.
const Filter* find_filter(std::string_view name);

}  // namespace hg::jinja
