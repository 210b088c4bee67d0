// SPDX-License-Identifier: Apache-2.0
// Numbers in [-1, 1) for tests, the same on every machine.
#pragma once

#include <cstdint>
#include <vector>

namespace hg::test {

inline std::vector<float> noise(int64_t count, uint64_t seed) {
  std::vector<float> values(count);
  uint64_t state = seed * 2 + 1;
  for (float& value : values) {
    state *= 0xf1357aea2e62a9c5u;
    value = static_cast<float>(static_cast<double>(state >> 32) / 2147483648.0 - 1);
  }
  return values;
}

}  // namespace hg::test
