// SPDX-License-Identifier: Apache-2.0
#include "lib/platform/read_ahead.h"

#include <array>
#include <cstddef>

namespace hg {

ReadAhead::~ReadAhead() {
  stops_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void ReadAhead::start() {
  if (is_started_.exchange(true)) return;
  (void)thread_.start([](void* self) { static_cast<ReadAhead*>(self)->run(); }, this);
}

void ReadAhead::run() {
  // More of a file that is larger than the memory would replace pages that are in use.
  constexpr size_t kMost = size_t{1} << 31;
  std::array<std::byte, 1 << 16> part;
  for (size_t left = kMost / part.size(); left > 0; --left)
    if (stops_.load(std::memory_order_relaxed) || file_.read(part.data(), part.size()) <= 0) return;
}

}  // namespace hg
