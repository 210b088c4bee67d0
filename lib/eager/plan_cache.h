// SPDX-License-Identifier: Apache-2.0
// The plans of an executor by what they were made for. A key is a list of words: the op's name, its
// attributes, and of each input the dtype, the shape and, where it has gaps, the strides.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "hg/call.h"
#include "lib/run/program.h"

namespace hg {

// Words in a row; of a usual call they need no allocation.
class CallKey {
 public:
  void add(uint64_t word) {
    if (size_ < kInline)
      words_[size_++] = word;
    else
      add_more(word);
  }
  void add(std::string_view text) {
    add(text.size());
    while (!text.empty()) {
      uint64_t word = 0;
      const size_t bytes = text.size() < 8 ? text.size() : 8;
      std::memcpy(&word, text.data(), bytes);
      add(word);
      text.remove_prefix(bytes);
    }
  }
  void add(const Sizes& sizes) {
    for (const int64_t size : sizes) add(static_cast<uint64_t>(size));
  }
  void add(const Argument::Value& value);

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
  std::vector<uint64_t> more_;  // all words, once there are more than kInline
};

// A call as it was planned.
struct PlannedCall {
  // How its results come about.
  enum class Way : uint8_t {
    direct,   // kernels write to the memory of the call
    view,     // they lie in the memory of inputs
    general,  // as a session runs
  };
  struct Output {
    bool is_known = false;  // dtype and shape; else data decides
    DType dtype = f32;
    Sizes shape;
    std::optional<Program::InputView> view;
    std::vector<bool> may_overwrite;  // by input of the program
  };
  Way way = Way::general;
  std::unique_ptr<Program> program;
  std::vector<size_t> operands;  // by input of the program: which one of the call
  std::vector<int64_t> extents;  // by input of the program: of one given as a line; else -1
  std::vector<Output> outputs;
  DType numbers = f32;  // of the numbers among the inputs
  bool is_random = false;
  bool is_read_in_place = true;  // no input has to be copied first
  // Addresses of the call at hand, by input and by output of the program.
  std::vector<void*> in, out;
};

// The least recently used plans go when there are too many.
class PlanCache {
 public:
  explicit PlanCache(size_t most);
  // Null when there is none.
  PlannedCall* find(std::span<const uint64_t> key, uint64_t hash);
  PlannedCall& add(std::span<const uint64_t> key, uint64_t hash, PlannedCall call);
  void clear();
  size_t size() const { return entries_.size(); }
  int64_t evicted() const { return evicted_; }

 private:
  static constexpr int32_t kNone = -1;
  struct Entry {
    std::vector<uint64_t> key;
    uint64_t hash = 0;
    int32_t next = kNone;                  // of the same bucket
    int32_t newer = kNone, older = kNone;  // in the order of use
    std::unique_ptr<PlannedCall> call;
  };
  Entry& at(int32_t index) { return entries_[index]; }
  int32_t& bucket(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  void unlink(int32_t index);  // from the order of use
  void make_newest(int32_t index);
  int32_t take_oldest();

  size_t most_;
  std::vector<int32_t> buckets_;  // a power of two of them
  std::vector<Entry> entries_;
  int32_t newest_ = kNone, oldest_ = kNone;
  int64_t evicted_ = 0;
};

}  // namespace hg
