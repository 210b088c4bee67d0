// SPDX-License-Identifier: Apache-2.0
// The value of a result, for tests that cannot continue without it.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "hg/status.h"

namespace hg {

// Returns the value, or ends the test program and prints the reason.
template <class T>
T must(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", std::string(result.status().message()).c_str());
    std::abort();
  }
  return *std::move(result);
}

}  // namespace hg
