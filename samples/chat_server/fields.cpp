// SPDX-License-Identifier: Apache-2.0
#include "fields.h"

#include <algorithm>

const Fields::Json* Fields::find(const std::string& name) {
  read_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::get(const std::string& name, bool& out) {
  const Json* const found = find(name);
  if (found == nullptr) return;
  if (!found->is_boolean()) return fail(name, "expected true or false, got ", found->type_name());
  out = found->get<bool>();
}

void Fields::get(const std::string& name, std::string& out) {
  const Json* const found = find(name);
  if (found == nullptr) return;
  if (!found->is_string()) return fail(name, "expected a string, got ", found->type_name());
  out = found->get<std::string>();
}

void Fields::get(const std::string& name, int64_t& out, int64_t least, int64_t most) {
  const Json* const found = find(name);
  if (found == nullptr) return;
  if (!found->is_number_integer())
    return fail(name, "expected an integer, got ",
                found->is_number() ? found->dump() : found->type_name());
  // Unsigned numbers may exceed int64_t.
  const bool fits =
      !found->is_number_unsigned() || found->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  if (!fits || found->get<int64_t>() < least || found->get<int64_t>() > most)
    return fail(name, "expected an integer from ", least, " to ", most, ", got ", found->dump());
  out = found->get<int64_t>();
}

void Fields::get(const std::string& name, double& out, double least, double most) {
  const Json* const found = find(name);
  if (found == nullptr) return;
  if (!found->is_number()) return fail(name, "expected a number, got ", found->type_name());
  const double number = found->get<double>();
  if (!(number >= least && number <= most))
    return fail(name, "expected a number from ", least, " to ", most, ", got ", found->dump());
  out = number;
}

void Fields::accept(const std::string& name, std::initializer_list<Json> values) {
  const Json* const found = find(name);
  if (found == nullptr || std::find(values.begin(), values.end(), *found) != values.end()) return;
  std::string expected;
  for (const Json& value : values) expected += (expected.empty() ? "" : " or ") + value.dump();
  fail(name, "this server supports only ", expected);
}

std::optional<ApiError> Fields::finish() {
  for (const auto& [name, value] : object_.items()) {
    if (!ok()) break;
    if (!read_.contains(name) && !value.is_null())
      fail(name.size() > 64 ? name.substr(0, 64) : name, "this server does not know the parameter");
  }
  return error_;
}
