// SPDX-License-Identifier: Apache-2.0
// A trait of ops internal to the library.
#pragma once

#include <cstdint>

namespace hg {

// For OpDef::traits: created only by gradients, expansions and passes; has no builder in hg/ops/.
inline constexpr uint32_t kInternal = uint32_t{1} << 31;

}  // namespace hg
