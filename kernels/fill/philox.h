// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as
// easy as 1, 2, 3"). Equal counters and seeds give equal bits.
#pragma once

#include <array>
#include <cstdint>

namespace hg::kernels {

using PhiloxCounter = std::array<uint32_t, 4>;

inline PhiloxCounter philox(PhiloxCounter counter, uint64_t seed) {
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(a)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// A double in [0, 1) from 64 random bits.
inline double philox_unit(uint32_t high, uint32_t low) {
  return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

}  // namespace hg::kernels
