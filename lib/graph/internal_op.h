// SPDX-License-Identifier: Apache-2.0
// A trait that the library's own ops alone have.
#pragma once

#include <cstdint>

namespace hg {

// Of OpDef::traits: made by gradients, expansions and passes for themselves, without a builder in
// hg/ops/.
inline constexpr uint32_t kInternal = uint32_t{1} << 31;

}  // namespace hg
