// SPDX-License-Identifier: Apache-2.0
// Plans of an executor, by call. A key is a list of words: op name, attributes, and for each input
// the dtype, the shape and, unless it is contiguous, the strides.
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

// A list of words that typical calls store without allocation.
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
  std::vector<uint64_t> more_;  // all words, if more than kInline
};

// A planned call.
struct PlannedCall {
  // How the results are produced.
  enum class Way : uint8_t {
    direct,   // kernels write to the memory of the call
    view,     // results are views of inputs
    general,  // like a run of a session
  };
  struct Output {
    bool is_known = false;  // dtype and shape are known; otherwise they depend on data
    DType dtype = f32;
    Sizes shape;
    std::optional<Program::InputView> view;
    std::vector<bool> may_overwrite;  // per program input
  };
  Way way = Way::general;
  std::unique_ptr<Program> program;
  std::vector<size_t> operands;  // per program input: index of the operand
  std::vector<int64_t> extents;  // per program input: extent if it is passed as a line; else -1
  std::vector<Output> outputs;
  DType numbers = f32;  // dtype of the numbers among the inputs
  bool is_random = false;
  bool is_read_in_place = true;  // no input needs a copy
  // Addresses of the current call, per input and output of the program.
  std::vector<void*> in, out;
};

// Evicts the least recently used plans beyond the limit.
class PlanCache {
 public:
  explicit PlanCache(size_t most);
  // Null if not cached.
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
    int32_t next = kNone;                  // in the same bucket
    int32_t newer = kNone, older = kNone;  // in order of use
    std::unique_ptr<PlannedCall> call;
  };
  Entry& at(int32_t index) { return entries_[index]; }
  int32_t& bucket(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  void unlink(int32_t index);  // from the order of use
  void make_newest(int32_t index);
  int32_t take_oldest();

  size_t most_;
  std::vector<int32_t> buckets_;  // the size is a power of two
  std::vector<Entry> entries_;
  int32_t newest_ = kNone, oldest_ = kNone;
  int64_t evicted_ = 0;
};

}  // namespace hg
