// SPDX-License-Identifier: Apache-2.0
// std::to_chars and std::from_chars of double, as in C++17, for C++ libraries that lack them. They
// call printf and strtod, so the C locale's decimal point must be a point.
#pragma once

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace hg::missing {

inline std::to_chars_result put_chars(char* first, char* last, const char* text) {
  const auto length = static_cast<std::ptrdiff_t>(std::strlen(text));
  if (length > last - first) return {last, std::errc::value_too_large};
  std::memcpy(first, text, static_cast<size_t>(length));
  return {first + length, std::errc()};
}

// The fewest digits that read back as the same number, without an exponent unless that is shorter.
inline std::to_chars_result to_chars(char* first, char* last, double value) {
  char text[400], fixed[400];
  int digits = 0;
  do {
    std::snprintf(text, sizeof text, "%.*e", digits, value);
  } while (std::strtod(text, nullptr) != value && ++digits < 17);
  if (!std::isfinite(value)) {
    std::snprintf(text, sizeof text, "%f", value);
    return put_chars(first, last, text);
  }
  const int exponent = std::atoi(std::strchr(text, 'e') + 1);
  std::snprintf(fixed, sizeof fixed, "%.*f", digits > exponent ? digits - exponent : 0, value);
  return put_chars(first, last, std::strlen(fixed) <= std::strlen(text) ? fixed : text);
}

inline std::to_chars_result to_chars(char* first, char* last, double value,
                                     std::chars_format format, int precision) {
  char text[400];
  const char* const as = format == std::chars_format::fixed        ? "%.*f"
                         : format == std::chars_format::scientific ? "%.*e"
                                                                   : "%.*g";
  std::snprintf(text, sizeof text, as, precision, value);
  return put_chars(first, last, text);
}

inline std::from_chars_result from_chars(const char* first, const char* last, double& value) {
  const char* at = first;
  const auto digits = [&] {
    const char* const begin = at;
    while (at != last && *at >= '0' && *at <= '9') ++at;
    return at - begin;
  };
  if (at != last && *at == '-') ++at;
  const auto word = [&](const char* what) {
    const size_t length = std::strlen(what);
    if (static_cast<size_t>(last - at) < length) return false;
    for (size_t i = 0; i < length; ++i)
      if ((at[i] | 0x20) != what[i]) return false;
    at += length;
    return true;
  };
  if (!word("infinity") && !word("inf") && !word("nan")) {
    auto count = digits();
    if (at != last && *at == '.') {
      ++at;
      count += digits();
    }
    if (count == 0) return {first, std::errc::invalid_argument};
    if (at != last && (*at | 0x20) == 'e') {
      const char* const before = at++;
      if (at != last && (*at == '+' || *at == '-')) ++at;
      if (digits() == 0) at = before;
    }
  }
  errno = 0;
  const double read = std::strtod(std::string(first, at).c_str(), nullptr);
  if (errno == ERANGE && (read == 0 || std::isinf(read)))
    return {at, std::errc::result_out_of_range};
  value = read;
  return {at, std::errc()};
}

}  // namespace hg::missing
