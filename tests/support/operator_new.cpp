// SPDX-License-Identifier: Apache-2.0
// operator new through malloc, which a test may count or make fail.
#include <cstdlib>
#include <new>

void* operator new(size_t bytes) {
  void* memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
