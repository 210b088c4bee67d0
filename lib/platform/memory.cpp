// SPDX-License-Identifier: Apache-2.0
// The parts that are the same on every system.
#include "lib/platform/memory.h"

#include <cstdlib>
#include <cstring>

#include "lib/platform/checked_memory.h"

namespace hg {

namespace {

constexpr size_t kAroundBlock = sizeof(void*) + 63;

// The aligned part of memory with kAroundBlock more bytes, whose address is in front of it.
void* block_in(void* whole) {
  if (whole == nullptr) return nullptr;
  const uintptr_t first = reinterpret_cast<uintptr_t>(whole) + sizeof(void*);
  auto* const block = reinterpret_cast<void**>((first + 63) / 64 * 64);
  block[-1] = whole;
  return block;
}

}  // namespace

void* allocate_block(uint64_t bytes) {
  if (kChecksViews) return allocate_checked(bytes);
  if (!is_addressable(bytes)) return nullptr;
  return block_in(std::malloc(static_cast<size_t>(bytes) + kAroundBlock));
}

void free_block(void* memory) {
  if (kChecksViews) return free_checked(memory);
  if (memory != nullptr) std::free(static_cast<void**>(memory)[-1]);
}

void* allocate_zeros(uint64_t bytes) {
  if (kChecksViews) return allocate_checked(bytes);
  if (!is_addressable(bytes)) return nullptr;
  return block_in(std::calloc(1, (static_cast<size_t>(bytes) + 63) / 64 * 64 + kAroundBlock));
}

void mark_freed([[maybe_unused]] void* memory, [[maybe_unused]] uint64_t bytes) {
#ifndef NDEBUG
  std::memset(memory, 0xff, static_cast<size_t>(bytes));
#endif
}

}  // namespace hg
