// SPDX-License-Identifier: Apache-2.0
// Large blocks of memory in builds without NDEBUG. Detects the next use of a view that outlives its
// memory: freed memory cannot be read, and its addresses are not reused until thousands of other
// blocks were freed or memory is exhausted. On systems that cannot hide pages, freed memory is
// filled with NaN of every float dtype until it is reused. AddressSanitizer reports more about such
// a use, so with it memory is as in other builds.
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

// Returns zeros, 64-byte aligned, for free_checked(); null if memory is exhausted.
void* allocate_checked(uint64_t bytes);
void free_checked(void* memory);
// Hides whole system pages and unmaps them later. Returns false without an effect if they cannot be
// hidden.
bool free_hidden(void* pages, size_t bytes);

}  // namespace hg
