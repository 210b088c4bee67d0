// SPDX-License-Identifier: Apache-2.0
// Memory in bulk from the system. Sizes have 64 bits: more than a process can address is memory
// that is short, never a smaller size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hg {

// Whether a request rounded up to 64 bytes is one that an allocator can be asked for.
constexpr bool is_addressable(uint64_t bytes) {
  return bytes <= static_cast<uint64_t>(PTRDIFF_MAX) - 127;
}

// At least so many bytes, 64-byte aligned, for free_aligned(); null when memory is short. The
// contents are undefined.
void* allocate_aligned(uint64_t bytes);
// The same on large pages where the system has them: they fault in, and are found, faster.
void* allocate_on_large_pages(uint64_t bytes);
void free_aligned(void* memory);
// Bytes of 0, of whatever alignment, for free_zeros(). Fresh pages of the system are zero already;
// they take memory when they are first written.
void* allocate_zeros(uint64_t bytes);
void free_zeros(void* memory);
// In builds without NDEBUG: fills what goes back to a host's allocator, so that who still looks at
// it finds NaN in every float dtype. What is freed here is unreadable then (checked_memory.h).
void mark_freed(void* memory, uint64_t bytes);
// Lets the system take the pages of a mapped file that lie wholly in here; what is read again comes
// from the file. Advice: it may do nothing.
void release_file_pages(const void* begin, uint64_t bytes);
// Gives the system what the heap holds and nobody uses. Also advice.
void trim_heap();

}  // namespace hg
