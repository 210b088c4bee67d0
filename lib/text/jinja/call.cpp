// SPDX-License-Identifier: Apache-2.0
#include "lib/text/jinja/call.h"

namespace hg::jinja {

Result<std::vector<const Value*>> Call::take(std::initializer_list<std::string_view> names,
                                             size_t needed) const {
  std::vector<const Value*> given(names.size(), nullptr);
  if (in_order.size() > names.size())
    return invalid_argument("it is called with ", uint64_t{in_order.size()}, " arguments, at most ",
                            uint64_t{names.size()}, " are supported");
  for (size_t i = 0; i < in_order.size(); ++i) given[i] = &in_order[i];
  for (const auto& [name, value] : named) {
    size_t at = 0;
    for (const std::string_view known : names) {
      if (known == name) break;
      ++at;
    }
    if (at == names.size()) return invalid_argument("the argument '", name, "' is not supported");
    if (given[at] != nullptr) return invalid_argument("the argument '", name, "' is given twice");
    given[at] = &value;
  }
  for (size_t i = 0; i < needed; ++i)
    if (given[i] == nullptr)
      return invalid_argument("the argument '", *(names.begin() + i), "' is missing");
  return given;
}

Result<const std::string*> text_argument(const Value& value, std::string_view name) {
  if (value.is_safe()) return unsupported("a result of the filter 'safe' can only be printed");
  if (const std::string* text = value.as_text()) return text;
  return invalid_argument("'", name, "' must be a text, got ", type_name(value));
}

Result<int64_t> whole_argument(const Value& value, std::string_view name) {
  if (const auto whole = value.integer()) return *whole;
  return invalid_argument("'", name, "' must be an integer, got ", type_name(value));
}

}  // namespace hg::jinja
