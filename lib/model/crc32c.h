// SPDX-License-Identifier: Apache-2.0
// The checksum of weights: CRC-32C, for which processors have an instruction.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hg {

uint32_t crc32c(const void* data, size_t bytes);

}  // namespace hg
