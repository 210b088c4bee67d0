// SPDX-License-Identifier: Apache-2.0
// The cache behind everything that compiles a graph when it is first needed: executors, lazy
// expressions, kernels as text, and named models. Each builds a key of everything that its graph
// depends on. (The plans of one graph for several sizes are in plans_by_size.h.)
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hg/call.h"

namespace hg {

// -- Keys: lists of words -------------------------------------------------------------------------

// These append to a CacheKey or a vector of words. The length of a text or list and the kind of a
// value come first, so that different contents have different words.
template <class Words>
void add_words(Words& words, std::string_view text) {
  words.push_back(text.size());
  while (!text.empty()) {
    uint64_t word = 0;
    const size_t bytes = text.size() < 8 ? text.size() : 8;
    std::memcpy(&word, text.data(), bytes);
    words.push_back(word);
    text.remove_prefix(bytes);
  }
}
template <class Words>
void add_words(Words& words, const Sizes& sizes) {
  words.push_back(sizes.size());
  for (const int64_t size : sizes) words.push_back(static_cast<uint64_t>(size));
}
template <class Words>
void add_words(Words& words, const Argument::Value& value) {
  words.push_back(value.index());
  const auto add_list = [&](const auto& list) {
    words.push_back(list.size());
    for (const auto number : list) words.push_back(std::bit_cast<uint64_t>(number));
  };
  if (const auto* flag = std::get_if<bool>(&value)) words.push_back(*flag);
  if (const auto* integer = std::get_if<int64_t>(&value))
    words.push_back(std::bit_cast<uint64_t>(*integer));
  if (const auto* real = std::get_if<double>(&value))
    words.push_back(std::bit_cast<uint64_t>(*real));
  if (const auto* word = std::get_if<std::string_view>(&value)) add_words(words, *word);
  if (const auto* dtype = std::get_if<DType>(&value))
    words.push_back(static_cast<uint64_t>(*dtype));
  if (const auto* list = std::get_if<std::span<const int64_t>>(&value)) add_list(*list);
  if (const auto* list = std::get_if<std::span<const double>>(&value)) add_list(*list);
}

// Stores the words of typical calls without allocation.
class CacheKey {
 public:
  void push_back(uint64_t word) {
    if (size_ < kInline)
      words_[size_++] = word;
    else
      add_more(word);
  }
  std::span<const uint64_t> words() const {
    return more_.empty() ? std::span(words_.data(), size_) : std::span(more_);
  }
  uint64_t hash() const {
    uint64_t hash = 0x9e3779b97f4a7c15ull;
    for (const uint64_t word : words())
      hash = ((hash ^ word) * 0xbf58476d1ce4e5b9ull) ^ (hash >> 29);
    return hash ^ (hash >> 32);
  }

 private:
  static constexpr size_t kInline = 64;
  void add_more(uint64_t word);
  std::array<uint64_t, kInline> words_;
  size_t size_ = 0;
  std::vector<uint64_t> more_;  // all words, if there are more than kInline
};

// -- The cache ------------------------------------------------------------------------------------

// The part of a cache that does not depend on the type of its values.
class LruIndex {
 public:
  LruIndex(size_t most, uint64_t most_bytes);
  void clear();
  size_t size() const { return size_; }

  struct Counters {
    int64_t hits = 0, added = 0, evicted = 0;
  };
  const Counters& counters() const { return counters_; }

 protected:
  static constexpr int32_t kNone = -1;
  struct Entry {
    std::vector<uint64_t> key;
    uint64_t hash = 0, bytes = 0;
    int32_t next = kNone;                  // in the same bucket
    int32_t newer = kNone, older = kNone;  // in order of use
    std::shared_ptr<void> value;
  };
  // Returns the first entry with the key from `index` on in its bucket, or kNone.
  int32_t match(int32_t index, std::span<const uint64_t> key, uint64_t hash) const;
  int32_t first(uint64_t hash) const { return buckets_[hash & (buckets_.size() - 1)]; }
  void use(int32_t index);  // it is the newest now
  void add(std::span<const uint64_t> key, uint64_t hash, std::shared_ptr<void> value);
  void set_bytes(int32_t index, uint64_t bytes);

  std::vector<Entry> entries_;
  Counters counters_;

 private:
  void unlink(int32_t index);  // from the order of use
  void make_newest(int32_t index);
  void evict_oldest();

  size_t most_;
  uint64_t most_bytes_, bytes_ = 0;  // of all entries
  std::vector<int32_t> buckets_;     // the size is a power of two
  std::vector<int32_t> unused_;      // entries without a value
  size_t size_ = 0;
  int32_t newest_ = kNone, oldest_ = kNone;
};

// Evicts the least recently used values if there are more than `most` (at least 1) or their bytes
// exceed `most_bytes`, but never the newest. Who holds a value may use it after its eviction.
// Not thread-safe: a cache that threads share needs a mutex of its owner.
template <class T>
class LruCache : public LruIndex {
 public:
  explicit LruCache(size_t most, uint64_t most_bytes = std::numeric_limits<uint64_t>::max())
      : LruIndex(most, most_bytes) {}

  // Returns the newest value with this key that `accepts`, or null.
  template <class Accepts>
  std::shared_ptr<T> find(const CacheKey& key, const Accepts& accepts) {
    const uint64_t hash = key.hash();
    for (int32_t i = match(first(hash), key.words(), hash); i != kNone;
         i = match(entries_[i].next, key.words(), hash)) {
      auto value = std::static_pointer_cast<T>(entries_[i].value);
      if (!accepts(*value)) continue;
      use(i);
      return value;
    }
    return nullptr;
  }
  // Returns the value, or null. It is valid until the next call of add() or set_bytes().
  T* find(const CacheKey& key) {
    const uint64_t hash = key.hash();
    const int32_t i = match(first(hash), key.words(), hash);
    if (i == kNone) return nullptr;
    use(i);
    return static_cast<T*>(entries_[i].value.get());
  }
  // Keys need not differ: a later value with the same key is found first.
  std::shared_ptr<T> add(const CacheKey& key, T value) {
    auto shared = std::make_shared<T>(std::move(value));
    LruIndex::add(key.words(), key.hash(), shared);
    return shared;
  }
  // Sets the bytes of a value that may no longer be cached.
  void set_bytes(const CacheKey& key, const std::shared_ptr<T>& value, uint64_t bytes) {
    const uint64_t hash = key.hash();
    for (int32_t i = match(first(hash), key.words(), hash); i != kNone;
         i = match(entries_[i].next, key.words(), hash))
      if (entries_[i].value == value) return LruIndex::set_bytes(i, bytes);
  }
};

}  // namespace hg
