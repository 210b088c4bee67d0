// SPDX-License-Identifier: Apache-2.0
// Block sizes that keep reused data in a cache. Measured on the machine of docs/performance.md,
// whose cores have 32 KiB of first-level and 512 KiB of second-level cache; larger caches lose
// little. Constants of a single kernel are next to it, with their effect.
#pragma once

#include <cstdint>

namespace hg::kernels {

// Of the elements that a product sums up, those that are packed and added at a time: a panel of
// them, 16 or 32 KiB, stays in the first cache. Results depend on it: sums are added by pieces.
inline constexpr int64_t kDepthPiece = 256;

// Of the first cache, what a panel or a copy may fill beside what is read and written once, and
// what it may fill where several rows of that are.
inline constexpr int64_t kFirstCacheFloats = 6144, kSharedFirstCacheFloats = 4096;

// Of the second cache: three quarters; half, what a lane keeps for its next task; and a quarter,
// rows that stay while all columns pass by.
inline constexpr int64_t kSecondCacheFloats = 98304, kKeptFloats = 65536, kPackedRowsFloats = 32768;

}  // namespace hg::kernels
