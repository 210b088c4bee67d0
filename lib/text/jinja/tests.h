// SPDX-License-Identifier: Apache-2.0
// The tests of templates, `value is name(arguments)`.
#pragma once

#include <string_view>

#include "lib/text/jinja/call.h"

namespace hg::jinja {

struct Test {
  std::string_view name;
  // The value is the first argument of the call.
  Result<bool> (*run)(Call&);
};
// Null if there is no test with this name.
const Test* find_test(std::string_view name);

}  // namespace hg::jinja
