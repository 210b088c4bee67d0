// SPDX-License-Identifier: Apache-2.0
// Results and statuses of tests that cannot continue without them.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "hg/status.h"

namespace hg {

// Ends the test program and prints the reason, unless the status is ok.
inline void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::abort();
}

// Returns the value of a result that is ok.
template <class T>
T must(Result<T> result) {
  must(result.status());
  return *std::move(result);
}

}  // namespace hg
