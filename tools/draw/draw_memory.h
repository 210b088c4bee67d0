// SPDX-License-Identifier: Apache-2.0
// Draws the arena over time: each block is a rectangle from its first to its last step, at its
// offset.
#pragma once

#include <span>
#include <string>

#include "hg/session.h"

namespace hg::tools {

std::string draw_memory(std::span<const ArenaBlock> blocks, const Memory& memory,
                        const std::string& title);

}  // namespace hg::tools
