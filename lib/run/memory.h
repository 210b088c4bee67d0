// SPDX-License-Identifier: Apache-2.0
// Memory of a session: from the host's allocator or the C library, 64-byte aligned, counted.
#pragma once

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "hg/session.h"

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

  // Replaces what was held; the contents are undefined. False when memory is short.
  bool allocate(const Allocator& allocator, int64_t bytes) {
    release();
    const auto padded = (static_cast<size_t>(bytes) + 63) / 64 * 64;
    if (padded == 0) return true;
    allocator_ = allocator;
    data_ = allocator.allocate != nullptr ? allocator.allocate(allocator.host, padded)
                                          : allocate_large_pages(padded);
    bytes_ = data_ != nullptr ? padded : 0;
    return data_ != nullptr;
  }
  void* data() const { return data_; }
  int64_t bytes() const { return static_cast<int64_t>(bytes_); }

 private:
  // Large blocks on large pages where the system has them: they fault in, and are found, faster.
  static void* allocate_large_pages(size_t bytes) {
#ifdef __linux__
    constexpr size_t kPage = size_t{2} << 20;
    if (bytes >= kPage) {
      void* data = nullptr;
      if (posix_memalign(&data, kPage, bytes) != 0) return nullptr;
      madvise(data, bytes / kPage * kPage, MADV_HUGEPAGE);  // advice: failing is no harm
      return data;
    }
#endif
    return std::aligned_alloc(64, bytes);
  }
  void swap(Memory64& other) {
    std::swap(allocator_, other.allocator_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  void release() {
    if (data_ == nullptr) return;
    if (allocator_.free != nullptr) allocator_.free(allocator_.host, data_, bytes_);
    else std::free(data_);
    data_ = nullptr;
    bytes_ = 0;
  }

  Allocator allocator_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Weights packed for kernels, once for each (kernel, value).
class SessionPacks final : public PackCache {
 public:
  SessionPacks(const Allocator& allocator, const ParallelFor& parallel)
      : allocator_(allocator), parallel_(&parallel) {}
  void* pack(std::string_view kernel, ValueId value, int64_t bytes,
             void (*fill)(void* arg, void* to), void* arg) override {
    auto [entry, is_new] = packed_.try_emplace({std::string(kernel), value});
    if (is_new) {
      if (!entry->second.allocate(allocator_, bytes)) {
        packed_.erase(entry);
        return nullptr;
      }
      touch(entry->second);
      fill(arg, entry->second.data());
      bytes_ += entry->second.bytes();
    }
    return entry->second.data();
  }
  int64_t bytes() const { return bytes_; }
  bool has(ValueId value) const {
    return std::any_of(packed_.begin(), packed_.end(),
                       [value](const auto& entry) { return entry.first.second == value; });
  }

 private:
  // The system clears new pages when they are first written, which takes longer than to pack: all
  // threads have it done.
  void touch(const Memory64& memory) const {
    constexpr int64_t kPart = int64_t{2} << 20, kPage = 4096;
    if (memory.bytes() < 2 * kPart || parallel_->threads < 2) return;
    parallel_->run(
        parallel_->host, (memory.bytes() + kPart - 1) / kPart,
        [](void* arg, int64_t part) {
          const Memory64& all = *static_cast<const Memory64*>(arg);
          const int64_t end = std::min(all.bytes(), (part + 1) * kPart);
          for (int64_t at = part * kPart; at < end; at += kPage)
            static_cast<volatile char*>(all.data())[at] = 0;
        },
        const_cast<Memory64*>(&memory));
  }

  Allocator allocator_;
  const ParallelFor* parallel_;
  std::map<std::pair<std::string, ValueId>, Memory64> packed_;
  int64_t bytes_ = 0;
};

}  // namespace hg
