// SPDX-License-Identifier: Apache-2.0
// Memory in bulk of builds without NDEBUG, where a view that outlives what it looks at is found at
// its next use: what is freed cannot be read, and its addresses are not given out again before
// thousands more were freed or memory is short. Where a system cannot hide pages, what is freed is
// NaN in every float dtype until somebody else has it. AddressSanitizer tells more of such a use;
// under it memory is as in other builds.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hg {

#ifdef __has_feature  // Clang's
#define HG_HAS_FEATURE(name) __has_feature(name)
#else
#define HG_HAS_FEATURE(name) 0
#endif
#if defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || HG_HAS_FEATURE(address_sanitizer)
constexpr bool kChecksViews = false;
#else
constexpr bool kChecksViews = true;
#endif
#undef HG_HAS_FEATURE

// Zeros, 64-byte aligned, for free_checked(); null when memory is short.
void* allocate_checked(uint64_t bytes);
void free_checked(void* memory);
// Hides whole pages of the system, which it unmaps later. False, and nothing is done, where they
// cannot be hidden.
bool free_hidden(void* pages, size_t bytes);

}  // namespace hg
