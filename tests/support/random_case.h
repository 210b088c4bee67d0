// SPDX-License-Identifier: Apache-2.0
// Random test cases: their random numbers, and which of them run. In the environment, HG_CASES sets
// their number, HG_FIRST the first of them, and HG_PRINT makes tests print their graphs:
//   HG_FIRST=17 HG_CASES=1 HG_PRINT=1 random_graphs_test
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

inline std::string chosen(const char* name) {
  const char* const given = std::getenv(name);
  return given == nullptr ? "" : given;
}
inline int64_t number_of(const char* name, int64_t usual) {
  const std::string given = chosen(name);
  return given.empty() ? usual : std::atoll(given.c_str());
}
inline int64_t case_count(int64_t usual) { return number_of("HG_CASES", usual); }
inline bool prints_graphs() { return !chosen("HG_PRINT").empty(); }
// How to run a case alone.
inline std::string repeated(uint64_t number) {
  return "repeat with HG_CASES=1 HG_FIRST=" + std::to_string(number);
}

// Calls f(number of the case), until a case fails.
template <class F>
void for_cases(int64_t usual, const F& f) {
  const int64_t first = number_of("HG_FIRST", 0), end = first + case_count(usual);
  for (int64_t i = first; i < end && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(repeated(static_cast<uint64_t>(i)));
    f(static_cast<uint64_t>(i));
  }
}

}  // namespace hg::test
