// SPDX-License-Identifier: Apache-2.0
#include "hg/call.h"

#include <string>
#include <vector>

namespace hg {

Attr Argument::attr() const {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* word = std::get_if<std::string_view>(&value)) return std::string(*word);
  if (const auto* dtype = std::get_if<DType>(&value)) return *dtype;
  if (const auto* integers = std::get_if<std::span<const int64_t>>(&value))
    return std::vector<Dim>(integers->begin(), integers->end());
  if (const auto* reals = std::get_if<std::span<const double>>(&value))
    return std::vector<double>(reals->begin(), reals->end());
  return {};
}

Result<Argument> Argument::of(std::string_view name, const Attr& attr, std::vector<int64_t>& list) {
  Argument argument(name, std::optional<bool>());
  if (const auto* flag = std::get_if<bool>(&attr.value)) argument.value = *flag;
  if (const auto* real = std::get_if<double>(&attr.value)) argument.value = *real;
  if (const auto* word = std::get_if<std::string>(&attr.value))
    argument.value = std::string_view(*word);
  if (const auto* dtype = std::get_if<DType>(&attr.value)) argument.value = *dtype;
  if (const auto* reals = std::get_if<std::vector<double>>(&attr.value))
    argument.value = std::span<const double>(*reals);
  const auto number = [&](const Dim& dim) -> Result<int64_t> {
    HG_CHECK(dim.is_constant(), "the attribute '", name, "' is ", dim, ", not a number");
    return dim.constant();
  };
  if (const auto* integer = std::get_if<Dim>(&attr.value)) {
    HG_TRY_ASSIGN(argument.value, number(*integer));
  }
  if (const auto* integers = std::get_if<std::vector<Dim>>(&attr.value)) {
    list.clear();
    for (const Dim& dim : *integers) {
      HG_TRY_ASSIGN(const int64_t value, number(dim));
      list.push_back(value);
    }
    argument.value = std::span<const int64_t>(list);
  }
  if (std::holds_alternative<std::vector<std::string>>(attr.value))
    return unsupported("the attribute '", name, "' is a list of texts, which calls do not support");
  return argument;
}

}  // namespace hg
