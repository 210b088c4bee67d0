// SPDX-License-Identifier: Apache-2.0
// An object file that holds bytes, for programs that link their data.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hg/status.h"

namespace hg::tools {

// A relocatable ELF file of 64 bits with the bytes as constant data, at a multiple of 64, under the
// name `symbol`, and their number as the 64-bit integer `symbol`_size. `machine` is x86-64, aarch64
// or riscv64; empty: the one that this runs on.
Result<std::vector<std::byte>> elf_object(std::span<const std::byte> bytes,
                                          const std::string& symbol, std::string_view machine);

// "resnet18" of "models/resnet18.hgm": a name for C and C++, so "model_int" of "int.hgm".
std::string symbol_of(std::string_view path);

}  // namespace hg::tools
