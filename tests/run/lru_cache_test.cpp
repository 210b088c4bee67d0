// SPDX-License-Identifier: Apache-2.0
// The cache of compiled graphs, beside a plain list.
#include "lib/run/lru_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace hg {
namespace {

CacheKey key_of(int number) {
  CacheKey key;
  add_words(key, std::string_view("key " + std::to_string(number % 7)));
  for (int i = 0; i < number % 90; ++i)
    key.push_back(number);  // some are longer than the key's array
  return key;
}

// The newest is last.
struct Plain {
  struct Entry {
    int key, value;
    uint64_t bytes = 0;
  };
  std::vector<Entry> entries;
  size_t most;
  uint64_t most_bytes;
  int64_t hits = 0, added = 0, evicted = 0;

  void evict_oldest() {
    entries.erase(entries.begin());
    ++evicted;
  }
  const Entry* find(int key, int at_least) {
    // Equal keys: the one that was added last comes first, whatever was used last.
    auto found = entries.end();
    for (auto entry = entries.begin(); entry != entries.end(); ++entry)
      if (entry->key == key && entry->value >= at_least &&
          (found == entries.end() || entry->value > found->value))
        found = entry;
    if (found == entries.end()) return nullptr;
    ++hits;
    std::rotate(found, found + 1, entries.end());
    return &entries.back();
  }
  void add(int key, int value) {
    if (entries.size() >= most) evict_oldest();
    entries.push_back({key, value});
    ++added;
  }
  void set_bytes(int value, uint64_t bytes) {
    for (Entry& entry : entries)
      if (entry.value == value) entry.bytes = bytes;
    const auto sum = [&] {
      uint64_t all = 0;
      for (const Entry& entry : entries) all += entry.bytes;
      return all;
    };
    while (sum() > most_bytes && entries.size() > 1) evict_oldest();
  }
};

TEST(LruCache, EqualsAPlainList) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % n); };
    const size_t most = below(9);
    const uint64_t most_bytes = 1 + below(200);
    LruCache<int> cache(most, most_bytes);
    Plain plain{{}, std::max<size_t>(most, 1), most_bytes};
    std::vector<std::pair<int, std::shared_ptr<int>>> held;  // also after eviction
    for (int step = 0; step < 400; ++step) {
      const int number = below(12) * 13;
      const CacheKey key = key_of(number);
      switch (below(9)) {
        case 0:
        case 1: {
          held.emplace_back(number, cache.add(key, step));
          plain.add(number, step);
          break;
        }
        case 2: {
          const int at_least = step - below(60);
          const auto found = cache.find(key, [&](int value) { return value >= at_least; });
          const Plain::Entry* const expected = plain.find(number, at_least);
          ASSERT_EQ(found != nullptr, expected != nullptr) << seed << " " << step;
          if (found != nullptr) EXPECT_EQ(*found, expected->value);
          break;
        }
        case 3: {
          if (held.empty()) break;
          const auto& [its, value] = held[below(static_cast<int>(held.size()))];
          const uint64_t bytes = below(50);
          cache.set_bytes(key_of(its), value, bytes);
          const bool is_there =
              std::any_of(plain.entries.begin(), plain.entries.end(),
                          [&](const Plain::Entry& entry) { return entry.value == *value; });
          if (is_there) plain.set_bytes(*value, bytes);
          break;
        }
        case 4: {
          if (below(20) > 0) break;
          cache.clear();
          plain.entries.clear();
          break;
        }
        default: {
          const int* const found = cache.find(key);
          const Plain::Entry* const expected = plain.find(number, 0);
          ASSERT_EQ(found != nullptr, expected != nullptr) << seed << " " << step;
          if (found != nullptr) EXPECT_EQ(*found, expected->value);
        }
      }
      ASSERT_EQ(cache.size(), plain.entries.size()) << seed << " " << step;
    }
    EXPECT_EQ(cache.counters().hits, plain.hits);
    EXPECT_EQ(cache.counters().added, plain.added);
    EXPECT_EQ(cache.counters().evicted, plain.evicted);
  }
}

// A value that is in use outlives its eviction.
TEST(LruCache, HeldValuesOutliveTheirEviction) {
  LruCache<std::string> cache(1);
  const std::shared_ptr<std::string> held = cache.add(key_of(1), "first");
  cache.add(key_of(2), "second");
  EXPECT_EQ(cache.find(key_of(1)), nullptr);
  EXPECT_EQ(*held, "first");
}

TEST(LruCache, DifferentAttributesHaveDifferentWords) {
  const std::vector<int64_t> one = {1}, two = {1, 2};
  const std::vector<double> real = {1};
  const std::vector<Argument::Value> values = {std::monostate(),
                                               false,
                                               true,
                                               int64_t{0},
                                               int64_t{1},
                                               0.0,
                                               -0.0,
                                               1.0,
                                               std::string_view(),
                                               std::string_view("a"),
                                               std::string_view("a\0", 2),
                                               f32,
                                               f64,
                                               std::span<const int64_t>(),
                                               std::span<const int64_t>(one),
                                               std::span<const int64_t>(two),
                                               std::span<const double>(),
                                               std::span<const double>(real)};
  std::vector<std::vector<uint64_t>> all;
  for (const Argument::Value& a : values)
    for (const Argument::Value& b : values) {
      std::vector<uint64_t>& words = all.emplace_back();
      add_words(words, a);
      add_words(words, b);
    }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

}  // namespace
}  // namespace hg
