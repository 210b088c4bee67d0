// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace hg::convert {

// The text of an error of nlohmann-json without the library's name and number, as in
// "[json.exception.out_of_range.403] key 'graph' not found".
inline std::string_view reason_of(std::string_view json_error) {
  const size_t end = json_error.starts_with('[') ? json_error.find("] ") : json_error.npos;
  return end == json_error.npos ? json_error : json_error.substr(end + 2);
}

}  // namespace hg::convert
