// SPDX-License-Identifier: Apache-2.0
// Large blocks of memory from the system. Sizes have 64 bits: a request beyond the address space
// fails, and never becomes a smaller one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hg {

// Whether a request, rounded up to 64 bytes, can be passed to an allocator.
constexpr bool is_addressable(uint64_t bytes) {
  return bytes <= static_cast<uint64_t>(PTRDIFF_MAX) - 127;
}

// Returns at least this many bytes, 64-byte aligned, for free_aligned(); null if memory is
// exhausted. The contents are undefined.
void* allocate_aligned(uint64_t bytes);
// The same on large pages if the system has them. They cause fewer page faults and TLB misses.
void* allocate_on_large_pages(uint64_t bytes);
void free_aligned(void* memory);
// Moves memory that is in use to large pages, which the system then also uses for the rest of it
// when first written. A hint: it may do nothing.
void move_to_large_pages(void* begin, uint64_t bytes);
// Takes the pages of unused memory, which is written next, from the system at once instead of in
// a page fault each; large pages if it has them. A hint.
void take_pages(void* begin, uint64_t bytes);
// As allocate_aligned(), for free_block(): as fast as malloc, for blocks that live for one call.
void* allocate_block(uint64_t bytes);
void free_block(void* memory);
// As allocate_block(), but zeroed, and whole multiples of 64 bytes. Fresh pages of the system are
// zero already and take memory only when first written.
void* allocate_zeros(uint64_t bytes);
// In builds without NDEBUG: fills memory that goes back to a host's allocator, so that stale
// readers find NaN of every float dtype. Memory freed by the library becomes unreadable instead
// (checked_memory.h).
void mark_freed(void* memory, uint64_t bytes);
// Lets the system drop the pages that are completely inside this range of a mapped file or a block.
// Those of a file are read again when used; a block has zeros or what it had. A hint: it may do
// nothing.
void release_pages(const void* begin, uint64_t bytes);
// Returns unused heap memory to the system. Also a hint.
void trim_heap();

}  // namespace hg
