// SPDX-License-Identifier: Apache-2.0
// The bytes of a file, mapped if the system supports it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "hg/status.h"
#include "lib/platform/read_ahead.h"

namespace hg {

struct Mapping {
  std::span<const std::byte> bytes;  // 64-byte aligned
  std::shared_ptr<void> owner;
  bool is_file = false;        // otherwise memory
  ReadAhead* ahead = nullptr;  // of `owner`; null if reading ahead would gain nothing
};

// Read-only, unless `writable`: writes then stay in this mapping. Fail with not_found, or with
// corrupt_model if the path is not a regular file or has more than max_bytes bytes; 0: no limit.
Result<Mapping> map_file(const std::string& path, int64_t max_bytes, bool writable = false);
Result<Mapping> read_file(const std::string& path, int64_t max_bytes);
Result<Mapping> copy_bytes(std::span<const std::byte> bytes);

}  // namespace hg
