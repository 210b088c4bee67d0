// SPDX-License-Identifier: Apache-2.0
// Host arenas of an engine, one per part of its plans, and the notification of the observer.
#pragma once

#include <vector>

#include "lib/run/memory.h"

namespace hg {

class Arenas {
 public:
  Arenas(const Allocator& allocator, const ArenaObserver& observer)
      : allocator_(allocator), observer_(observer) {}
  Arenas(const Arenas&) = delete;
  Arenas& operator=(const Arenas&) = delete;
  ~Arenas() { release(); }

  bool is_enough(size_t part, int64_t bytes) const { return this->bytes(part) >= bytes; }
  // Replaces the arena of the part. Returns false if memory is exhausted.
  bool allocate(size_t part, int64_t bytes) {
    if (all_.size() <= part) all_.resize(part + 1);
    Memory64& arena = all_[part];
    release(arena);
    if (!arena.allocate(allocator_, bytes)) return false;
    if (observer_.allocated != nullptr && arena.bytes() > 0)
      observer_.allocated(observer_.host, arena.data(), static_cast<size_t>(arena.bytes()));
    return true;
  }
  void release() {
    for (Memory64& arena : all_) release(arena);
    all_.clear();
  }
  void* data(size_t part) const { return part < all_.size() ? all_[part].data() : nullptr; }
  int64_t bytes(size_t part) const { return part < all_.size() ? all_[part].bytes() : 0; }

 private:
  void release(Memory64& arena) {
    if (observer_.freed != nullptr && arena.bytes() > 0)
      observer_.freed(observer_.host, arena.data(), static_cast<size_t>(arena.bytes()));
    arena = Memory64();
  }

  Allocator allocator_;
  ArenaObserver observer_;
  std::vector<Memory64> all_;
};

}  // namespace hg
