// SPDX-License-Identifier: Apache-2.0
// Work shared by threads. Each thread starts with its own part, the same one in every run, so that
// the data is in its cache; then it helps with the other parts. Results do not depend on the
// distribution.
#pragma once

#include <atomic>
#include <cstdint>

namespace hg {

// Returns the beginning of part `index` of `parts` parts of nearly equal size.
inline int64_t part_begin(int64_t count, int64_t parts, int64_t index) {
  return count * index / parts;
}

struct alignas(64) SharedPart {
  SharedPart() = default;
  SharedPart(int64_t count, int64_t parts, int64_t index)
      : next(part_begin(count, parts, index)), end(part_begin(count, parts, index + 1)) {}

  std::atomic<int64_t> next{0};  // first index that is not taken
  int64_t end = 0;
};

// Runs task(index) for all of part `own`, then for the remaining indices of the other parts.
// Returns the number of indices that it ran.
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
