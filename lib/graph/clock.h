// SPDX-License-Identifier: Apache-2.0
// The clock that measures how long something takes.
#pragma once

#include <chrono>

namespace hg {

using Clock = std::chrono::steady_clock;

inline double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace hg
