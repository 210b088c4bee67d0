// SPDX-License-Identifier: Apache-2.0
// Block sizes that keep reused data in a cache. Measured on the machine of docs/performance.md,
// whose cores have 32 KiB of first-level and 512 KiB of second-level cache; larger caches lose
// little. Constants of a single kernel are next to it, with their effect.
#pragma once

#include <cstdint>

namespace hg::kernels {

// Number of summed elements that are packed and added at a time. A panel of them, 16 or 32 KiB,
// stays in the first-level cache. Results depend on this number, because sums are added piece by
// piece.
inline constexpr int64_t kDepthPiece = 256;

// Floats of the first-level cache that a panel or a copy may fill, next to data that is read and
// written once; and the same if several rows of such data are used.
inline constexpr int64_t kFirstCacheFloats = 6144, kSharedFirstCacheFloats = 4096;

// Floats of the second-level cache: three quarters; half, for data that a lane keeps for its next
// task; and a quarter, for rows that stay while all columns pass.
inline constexpr int64_t kSecondCacheFloats = 98304, kKeptFloats = 65536, kPackedRowsFloats = 32768;

}  // namespace hg::kernels
