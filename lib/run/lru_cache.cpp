// SPDX-License-Identifier: Apache-2.0
#include "lib/run/lru_cache.h"

#include <algorithm>

namespace hg {

void CacheKey::add_more(uint64_t word) {
  if (more_.empty()) more_.assign(words_.begin(), words_.end());
  more_.push_back(word);
}

LruIndex::LruIndex(size_t most, uint64_t most_bytes)
    : most_(std::max<size_t>(most, 1)), most_bytes_(most_bytes) {
  buckets_.assign(std::bit_ceil(2 * std::min<size_t>(most_, size_t{1} << 20)), kNone);
}

int32_t LruIndex::match(int32_t index, std::span<const uint64_t> key, uint64_t hash) const {
  for (; index != kNone; index = entries_[index].next) {
    const Entry& entry = entries_[index];
    if (entry.hash == hash &&
        std::equal(key.begin(), key.end(), entry.key.begin(), entry.key.end()))
      return index;
  }
  return kNone;
}

void LruIndex::use(int32_t index) {
  ++counters_.hits;
  if (newest_ == index) return;
  unlink(index);
  make_newest(index);
}

void LruIndex::add(std::span<const uint64_t> key, uint64_t hash, std::shared_ptr<void> value) {
  if (size_ >= most_) evict_oldest();
  if (unused_.empty()) {
    entries_.emplace_back();
    unused_.push_back(static_cast<int32_t>(entries_.size() - 1));
  }
  const int32_t index = unused_.back();
  Entry& entry = entries_[index];
  entry.key.assign(key.begin(), key.end());
  unused_.pop_back();  // nothing fails from here on
  entry.hash = hash;
  entry.value = std::move(value);
  int32_t& bucket = buckets_[hash & (buckets_.size() - 1)];
  entry.next = std::exchange(bucket, index);
  make_newest(index);
  ++size_;
  ++counters_.added;
}

void LruIndex::set_bytes(int32_t index, uint64_t bytes) {
  bytes_ += bytes - std::exchange(entries_[index].bytes, bytes);
  while (bytes_ > most_bytes_ && oldest_ != newest_) evict_oldest();
}

void LruIndex::clear() {
  entries_.clear();
  unused_.clear();
  std::fill(buckets_.begin(), buckets_.end(), kNone);
  newest_ = oldest_ = kNone;
  size_ = 0;
  bytes_ = 0;
}

void LruIndex::unlink(int32_t index) {
  const Entry& entry = entries_[index];
  (entry.newer != kNone ? entries_[entry.newer].older : newest_) = entry.older;
  (entry.older != kNone ? entries_[entry.older].newer : oldest_) = entry.newer;
}

void LruIndex::make_newest(int32_t index) {
  Entry& entry = entries_[index];
  entry.newer = kNone;
  entry.older = newest_;
  (newest_ != kNone ? entries_[newest_].newer : oldest_) = index;
  newest_ = index;
}

void LruIndex::evict_oldest() {
  const int32_t index = oldest_;
  unused_.push_back(index);
  unlink(index);
  Entry& entry = entries_[index];
  int32_t* link = &buckets_[entry.hash & (buckets_.size() - 1)];
  while (*link != index) link = &entries_[*link].next;
  *link = entry.next;
  bytes_ -= std::exchange(entry.bytes, 0);
  entry.value.reset();
  --size_;
  ++counters_.evicted;
}

}  // namespace hg
