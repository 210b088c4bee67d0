// SPDX-License-Identifier: Apache-2.0
// Memory of a session, from the host's allocator or the C library; 64-byte aligned and counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hg/options.h"
#include "lib/graph/later_data.h"
#include "lib/platform/memory.h"
#include "lib/run/packed_file.h"

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
  bool allocate(const Allocator& allocator, int64_t bytes) { return take(allocator, bytes, false); }
  // The same, but the contents are zeros. Without a host's allocator, pages take memory only when
  // first written.
  bool allocate_zeroed(const Allocator& allocator, int64_t bytes) {
    return take(allocator, bytes, true);
  }
  // A hint. Memory of a host's allocator stays where it is.
  void move_to_large_pages() {
    if (allocator_.allocate == nullptr) hg::move_to_large_pages(data_, bytes_);
  }
  void* data() const { return data_; }
  int64_t bytes() const { return static_cast<int64_t>(bytes_); }

 private:
  bool take(const Allocator& allocator, int64_t bytes, bool zeroed) {
    release();
    if (bytes == 0) return true;
    if (bytes > PTRDIFF_MAX - 63) return false;
    const auto padded = (static_cast<size_t>(bytes) + 63) / 64 * 64;
    const bool is_hosts = allocator.allocate != nullptr;
    allocator_ = allocator;
    is_block_ = zeroed;
    data_ = is_hosts ? allocator.allocate(allocator.host, padded)
            : zeroed ? allocate_zeros(padded)
                     : allocate_on_large_pages(padded);
    if (is_hosts && zeroed && data_ != nullptr) std::memset(data_, 0, padded);
    bytes_ = data_ != nullptr ? padded : 0;
    return data_ != nullptr;
  }
  void swap(Memory64& other) {
    std::swap(allocator_, other.allocator_);
    std::swap(is_block_, other.is_block_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  void release() {
    if (data_ == nullptr) return;
    if (allocator_.free != nullptr) {
      mark_freed(data_, bytes_);
      allocator_.free(allocator_.host, data_, bytes_);
    } else {
      is_block_ ? free_block(data_) : free_aligned(data_);
    }
    data_ = nullptr;
    bytes_ = 0;
  }

  Allocator allocator_;
  bool is_block_ = false;  // of the library: from allocate_zeros()
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

inline std::span<const std::byte> span_of(const TensorData& data) {
  return {data.tensor.as<const std::byte>(), static_cast<size_t>(data.tensor.bytes())};
}
// Joins the CRC-32C of the origin's source with that of its parameters.
uint32_t sum_of_origin(const LaterData::Origin& origin, uint32_t source);

// Packed weights, keyed by kernel and by the address and owner of the source. Not thread-safe,
// except bytes() and mapped_bytes().
class SharedPacks {
 public:
  explicit SharedPacks(const Allocator& allocator) : allocator_(allocator) {}
  // Takes packs from this file where it has them. Files of other graphs have other prefixes. Call
  // before the first pack(); `file` may be null if none exists yet.
  void use_file(std::unique_ptr<PackedFile> file, std::string prefix);
  // The source of a pack: the kernel, its view of the memory, and the memory.
  struct Source {
    std::string key;
    std::span<const std::byte> bytes;
    std::shared_ptr<void> owner;
    std::optional<uint32_t> sum;       // CRC-32C, if the model's file records it
    std::shared_ptr<LaterData> later;  // may be null; else `sum` is its sum_of_origin()
  };
  // See PackCache::pack(). `is_new` is set to whether the key was new.
  void* pack(const Source& source, ValueId value, int64_t bytes, std::function<void(void* to)> fill,
             bool at_once, bool& is_new);
  // Runs the deferred fills on all threads, largest first. `done` is called, from any thread, for
  // each value that fills no longer read. Fills that fail for lack of memory stay deferred.
  Status fill(const ParallelFor& parallel, const std::function<void(ValueId)>& done);
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Those of the file that are as they should be.
  int64_t mapped_bytes() const { return mapped_bytes_.load(std::memory_order_relaxed); }
  // Appends all packs that are filled, for a file. Requires use_file(). Returns whether the file
  // lacks one.
  bool list(std::vector<PackedEntry>& entries) const;

 private:
  struct Packed {
    std::string key;
    std::weak_ptr<void> owner;
    Memory64 memory;                     // empty if `entry` has the memory
    const PackedEntry* entry = nullptr;  // of the file
    std::span<std::byte> bytes;
    std::optional<uint32_t> recorded;  // Source::sum
    uint32_t source = 0;               // CRC-32C of the source or its origin, after use_file()
    bool is_filled = false;
    bool is_mapped = false;  // the entry was right
  };
  // Whether the file has the pack of a source with this CRC-32C.
  static bool is_right(const Packed& packed, uint32_t source);
  // Fills a pack, or confirms what the file has.
  void fill_one(Packed& packed, std::span<const std::byte> source, LaterData* later,
                const std::function<void(void* to)>& fill);
  struct Pending {
    ValueId value = kNoValue;
    int64_t bytes = 0;
    std::shared_ptr<void> owner;  // of the source memory
    struct Fill {
      Packed* packed;
      std::shared_ptr<LaterData> later;
      std::span<const std::byte> source;
      std::function<void(void* to)> write;
    };
    std::vector<Fill> fills;
    bool is_done = false;
  };
  Allocator allocator_;
  bool has_file_ = false;
  std::unique_ptr<PackedFile> file_;
  std::string prefix_;
  std::unordered_multimap<const void*, Packed> packed_;  // by the address of Source::bytes
  std::map<ValueId, Pending> pending_;
  std::atomic<int64_t> bytes_{0}, mapped_bytes_{0};
};

}  // namespace hg
