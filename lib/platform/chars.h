// SPDX-License-Identifier: Apache-2.0
// std::to_chars and std::from_chars, with those of doubles where the C++ library lacks them, as
// LLVM's did for long.
#pragma once

#include <charconv>

#ifndef __cpp_lib_to_chars
#include "lib/platform/missing/chars.h"
#endif

namespace hg {

using std::from_chars;
using std::to_chars;
#ifndef __cpp_lib_to_chars
using missing::from_chars;
using missing::to_chars;
#endif

}  // namespace hg
