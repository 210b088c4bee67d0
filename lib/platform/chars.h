// SPDX-License-Identifier: Apache-2.0
// std::to_chars and std::from_chars, including the overloads for double that older versions of
// LLVM's C++ library lack.
#pragma once

#include <charconv>
#include <utility>

#ifndef __cpp_lib_to_chars
#include "lib/platform/missing/chars.h"
#endif

namespace hg {

#ifdef __cpp_lib_to_chars
using std::from_chars;
using std::to_chars;
#else
// LLVM's library has those of double from version 20 on. It does not define the feature macro,
// because it lacks those of long double.
template <class... Arguments>
std::from_chars_result from_chars(const char* first, const char* last, Arguments&&... more) {
  if constexpr (requires { std::from_chars(first, last, std::forward<Arguments>(more)...); })
    return std::from_chars(first, last, std::forward<Arguments>(more)...);
  else
    return missing::from_chars(first, last, std::forward<Arguments>(more)...);
}

template <class... Arguments>
std::to_chars_result to_chars(char* first, char* last, Arguments... more) {
  if constexpr (requires { std::to_chars(first, last, more...); })
    return std::to_chars(first, last, more...);
  else
    return missing::to_chars(first, last, more...);
}
#endif

}  // namespace hg
