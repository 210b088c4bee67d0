// SPDX-License-Identifier: Apache-2.0
// Work that threads share: each has a part of its own, the same in every run, so that it finds in
// its cache what it wrote; then it helps the others. Who does what changes no result.
#pragma once

#include <atomic>
#include <cstdint>

namespace hg {

// Where part `index` of `parts` begins, which are as equal as they can be.
inline int64_t part_begin(int64_t count, int64_t parts, int64_t index) {
  return count * index / parts;
}

struct alignas(64) SharedPart {
  SharedPart() = default;
  SharedPart(int64_t count, int64_t parts, int64_t index)
      : next(part_begin(count, parts, index)), end(part_begin(count, parts, index + 1)) {}

  std::atomic<int64_t> next{0};  // of the indices that nobody has begun
  int64_t end = 0;
};

// Runs task(index) for all of part `own`, then for what is left of the others, in turn. Returns how
// many indices it ran.
template <class Task>
int64_t take_parts(SharedPart* parts, int64_t count, int64_t own, const Task& task) {
  int64_t taken = 0;
  for (int64_t k = 0; k < count; ++k) {
    SharedPart& part = parts[(own + k) % count];
    for (int64_t i; (i = part.next.fetch_add(1, std::memory_order_relaxed)) < part.end; ++taken)
      task(i);
  }
  return taken;
}

}  // namespace hg
