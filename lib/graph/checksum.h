// SPDX-License-Identifier: Apache-2.0
// FNV-1a: detects damaged blobs and distinguishes graphs. Does not protect against forgery.
#pragma once

#include <cstdint>
#include <span>

namespace hg {

inline uint64_t checksum_of(std::span<const std::byte> bytes,
                            uint64_t hash = 0xcbf29ce484222325ull) {
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3ull;
  return hash;
}

}  // namespace hg
