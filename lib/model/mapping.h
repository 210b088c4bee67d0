// SPDX-License-Identifier: Apache-2.0
// The bytes of a file, mapped where the system can.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "hg/status.h"

namespace hg {

struct Mapping {
  std::span<const std::byte> bytes;  // 64-byte aligned
  std::shared_ptr<void> owner;
  bool is_file = false;  // else memory
};

// Read only. Both fail with not_found, or corrupt_model for what is not a regular file, or has more
// bytes than max_bytes; 0: any number.
Result<Mapping> map_file(const std::string& path, int64_t max_bytes);
Result<Mapping> read_file(const std::string& path, int64_t max_bytes);
Result<Mapping> copy_bytes(std::span<const std::byte> bytes);

}  // namespace hg
