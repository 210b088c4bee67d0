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

// Returns a relocatable 64-bit ELF file with the bytes as constant data, 64-byte aligned, under the
// name `symbol`, and their number as the 64-bit integer `symbol`_size. `machine` is x86-64, aarch64
// or riscv64; empty: the machine that this program runs on.
Result<std::vector<std::byte>> elf_object(std::span<const std::byte> bytes,
                                          const std::string& symbol, std::string_view machine);

// "resnet18" from "models/resnet18.hgm": a valid name in C and C++, so "model_int" from "int.hgm".
std::string symbol_of(std::string_view path);

}  // namespace hg::tools
