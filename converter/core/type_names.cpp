// SPDX-License-Identifier: Apache-2.0
#include "converter/core/type_names.h"

#include "hg/status.h"

namespace hg::convert {

std::optional<std::string> inside_of(std::string_view type, std::string_view name) {
  for (const char open : {'[', '('}) {
    const std::string head = str_cat(name, std::string_view(&open, 1));
    if (type.starts_with(head) && type.size() > head.size())
      return std::string(type.substr(head.size(), type.size() - head.size() - 1));
  }
  if (name == "Tuple" && type.starts_with("(") && type.ends_with(")"))
    return std::string(type.substr(1, type.size() - 2));
  if (name == "List" && type.ends_with("[]")) return std::string(type.substr(0, type.size() - 2));
  if (name == "Optional" && type.ends_with("?"))
    return std::string(type.substr(0, type.size() - 1));
  return std::nullopt;
}

std::vector<NamedType> split_types(std::string_view types) {
  std::vector<NamedType> parts;
  NamedType part;
  int depth = 0;
  for (const char c : types) {
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(std::move(part));
      part = {};
    } else if (c == ':' && depth == 0) {
      part.name = std::move(part.type);
      part.type.clear();
    } else if (c != ' ' || !part.type.empty()) {
      part.type.push_back(c);
    }
  }
  if (!part.type.empty()) parts.push_back(std::move(part));
  return parts;
}

}  // namespace hg::convert
