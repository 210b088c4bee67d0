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

// Read only. Fails with not_found, or corrupt_model for what is not a regular file.
Result<Mapping> map_file(const std::string& path);
Result<Mapping> copy_bytes(std::span<const std::byte> bytes);

}  // namespace hg
