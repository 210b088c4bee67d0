// SPDX-License-Identifier: Apache-2.0
// Random test cases: their random numbers, and how many run. HG_CASES=20000 in the environment sets
// the number.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "lib/graph/split_mix.h"

namespace hg::test {

class Chance {
 public:
  explicit Chance(uint64_t seed) : state_(seed) {}
  int64_t below(int64_t n) {
    return static_cast<int64_t>(split_mix(state_) % static_cast<uint64_t>(n));
  }
  bool chance(int percent) { return below(100) < percent; }

 private:
  uint64_t state_;
};

inline int64_t case_count(int64_t usual) {
  const char* const given = std::getenv("HG_CASES");
  return given == nullptr ? usual : std::atoll(given);
}

// Calls f(number of the case), until a case fails.
template <class F>
void for_cases(int64_t usual, const F& f) {
  for (int64_t i = 0, count = case_count(usual); i < count && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    f(static_cast<uint64_t>(i));
  }
}

}  // namespace hg::test
