// SPDX-License-Identifier: Apache-2.0
// Parses JSON texts to values, and prints values as Python's json.dumps does.
#pragma once

#include <string>

#include "lib/text/jinja/value.h"
#include "lib/text/json_fields.h"

namespace hg::jinja {

Result<Value> value_from(const nlohmann::ordered_json& json);

struct JsonStyle {
  bool sorts = false, is_ascii = false;
  bool has_indent = false;
  std::string indent;  // of one level
  std::string item = ", ", key = ": ";
};
Status append_json(Meter& meter, std::string& out, const Value& value, const JsonStyle& style,
                   int level = 0);

}  // namespace hg::jinja
