// SPDX-License-Identifier: Apache-2.0
// Memory of a session, from the host's allocator or the C library; 64-byte aligned and counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hg/options.h"
#include "lib/platform/memory.h"

namespace hg {

class Memory64 {
 public:
  Memory64() = default;
  Memory64(Memory64&& other) noexcept { swap(other); }
  Memory64& operator=(Memory64&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Memory64() { release(); }

  // Replaces the memory; contents are uninitialized. Returns false if memory is exhausted.
  bool allocate(const Allocator& allocator, int64_t bytes) {
    release();
    if (bytes == 0) return true;
    if (bytes > PTRDIFF_MAX - 63) return false;
    const auto padded = (static_cast<size_t>(bytes) + 63) / 64 * 64;
    allocator_ = allocator;
    data_ = allocator.allocate != nullptr ? allocator.allocate(allocator.host, padded)
                                          : allocate_on_large_pages(padded);
    bytes_ = data_ != nullptr ? padded : 0;
    return data_ != nullptr;
  }
  void* data() const { return data_; }
  int64_t bytes() const { return static_cast<int64_t>(bytes_); }

 private:
  void swap(Memory64& other) {
    std::swap(allocator_, other.allocator_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  void release() {
    if (data_ == nullptr) return;
    if (allocator_.free != nullptr) {
      mark_freed(data_, bytes_);
      allocator_.free(allocator_.host, data_, bytes_);
    } else {
      free_aligned(data_);
    }
    data_ = nullptr;
    bytes_ = 0;
  }

  Allocator allocator_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Packed weights, keyed by kernel and by the address and owner of the source. Not thread-safe,
// except bytes().
class SharedPacks {
 public:
  explicit SharedPacks(const Allocator& allocator) : allocator_(allocator) {}
  // The source of a pack: the kernel, its view of the memory, and the memory.
  struct Source {
    std::string key;
    const void* data = nullptr;
    std::shared_ptr<void> owner;
  };
  // See PackCache::pack(). `is_new` is set to whether the key was new.
  void* pack(const Source& source, ValueId value, int64_t bytes, std::function<void(void* to)> fill,
             bool at_once, bool& is_new);
  // Runs the deferred fills on all threads, largest first. `done` is called, from any thread, for
  // each value that fills no longer read. Fills that fail for lack of memory stay deferred.
  Status fill(const ParallelFor& parallel, const std::function<void(ValueId)>& done);
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Packed {
    std::string key;
    std::weak_ptr<void> owner;
    Memory64 memory;
  };
  struct Pending {
    ValueId value = kNoValue;
    int64_t bytes = 0;
    std::shared_ptr<void> owner;  // of the source memory
    std::vector<std::pair<void*, std::function<void(void* to)>>> fills;
    bool is_done = false;
  };
  Allocator allocator_;
  std::unordered_multimap<const void*, Packed> packed_;  // by Source::data
  std::map<ValueId, Pending> pending_;
  std::atomic<int64_t> bytes_{0};
};

}  // namespace hg
