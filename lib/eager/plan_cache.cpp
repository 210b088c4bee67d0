// SPDX-License-Identifier: Apache-2.0
#include "lib/eager/plan_cache.h"

#include <algorithm>
#include <bit>

namespace hg {

void CallKey::add_more(uint64_t word) {
  if (more_.empty()) more_.assign(words_.begin(), words_.end());
  more_.push_back(word);
}

// Writes the kind before a value and the length before a list, so that different calls have
// different keys.
void CallKey::add(const Argument::Value& value) {
  add(static_cast<uint64_t>(value.index()));
  if (const auto* flag = std::get_if<bool>(&value)) {
    add(static_cast<uint64_t>(*flag));
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    add(static_cast<uint64_t>(*integer));
  } else if (const auto* real = std::get_if<double>(&value)) {
    add(std::bit_cast<uint64_t>(*real));
  } else if (const auto* word = std::get_if<std::string_view>(&value)) {
    add(*word);
  } else if (const auto* dtype = std::get_if<DType>(&value)) {
    add(static_cast<uint64_t>(*dtype));
  } else if (const auto* integers = std::get_if<std::span<const int64_t>>(&value)) {
    add(integers->size());
    for (const int64_t each : *integers) add(static_cast<uint64_t>(each));
  } else if (const auto* reals = std::get_if<std::span<const double>>(&value)) {
    add(reals->size());
    for (const double each : *reals) add(std::bit_cast<uint64_t>(each));
  }
}

PlanCache::PlanCache(size_t most) : most_(std::max<size_t>(most, 1)) {
  buckets_.assign(std::bit_ceil(2 * std::min<size_t>(most_, size_t{1} << 20)), kNone);
}

PlannedCall* PlanCache::find(std::span<const uint64_t> key, uint64_t hash) {
  for (int32_t index = bucket(hash); index != kNone; index = at(index).next) {
    Entry& entry = at(index);
    if (entry.hash != hash ||
        !std::equal(key.begin(), key.end(), entry.key.begin(), entry.key.end()))
      continue;
    if (newest_ != index) {
      unlink(index);
      make_newest(index);
    }
    return entry.call.get();
  }
  return nullptr;
}

PlannedCall& PlanCache::add(std::span<const uint64_t> key, uint64_t hash, PlannedCall call) {
  int32_t index = static_cast<int32_t>(entries_.size());
  if (entries_.size() < most_)
    entries_.emplace_back();
  else
    index = take_oldest();
  Entry& entry = at(index);
  entry.key.assign(key.begin(), key.end());
  entry.hash = hash;
  entry.call = std::make_unique<PlannedCall>(std::move(call));
  entry.next = std::exchange(bucket(hash), index);
  make_newest(index);
  return *entry.call;
}

void PlanCache::clear() {
  entries_.clear();
  std::fill(buckets_.begin(), buckets_.end(), kNone);
  newest_ = oldest_ = kNone;
}

void PlanCache::unlink(int32_t index) {
  Entry& entry = at(index);
  (entry.newer != kNone ? at(entry.newer).older : newest_) = entry.older;
  (entry.older != kNone ? at(entry.older).newer : oldest_) = entry.newer;
}

void PlanCache::make_newest(int32_t index) {
  Entry& entry = at(index);
  entry.newer = kNone;
  entry.older = newest_;
  (newest_ != kNone ? at(newest_).newer : oldest_) = index;
  newest_ = index;
}

int32_t PlanCache::take_oldest() {
  const int32_t index = oldest_;
  unlink(index);
  int32_t* link = &bucket(at(index).hash);
  while (*link != index) link = &at(*link).next;
  *link = at(index).next;
  ++evicted_;
  return index;
}

}  // namespace hg
