// SPDX-License-Identifier: Apache-2.0
// A set of texts that finds the ones that are prefixes of another text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hg {

class PrefixTable {
 public:
  PrefixTable() = default;
  // Texts with their values. If texts are equal, the last one counts; empty texts are ignored.
  explicit PrefixTable(std::vector<std::pair<std::string, int32_t>> texts) {
    std::stable_sort(texts.begin(), texts.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& entry : texts) {
      if (entry.first.empty()) continue;
      if (!entries_.empty() && entries_.back().first == entry.first)
        entries_.back().second = entry.second;
      else
        entries_.push_back(std::move(entry));
    }
    size_t at = 0;
    for (size_t byte = 0; byte <= 256; ++byte) {
      while (at < entries_.size() && static_cast<uint8_t>(entries_[at].first[0]) < byte) ++at;
      begins_[byte] = at;
    }
  }

  bool empty() const { return entries_.empty(); }
  // Calls found(length, value) for each text that is a prefix of `text`, the shortest first.
  template <class F>
  void each_prefix(std::string_view text, const F& found) const {
    if (text.empty() || entries_.empty()) return;
    size_t low = begins_[static_cast<uint8_t>(text[0])];
    size_t high = begins_[static_cast<uint8_t>(text[0]) + 1];
    for (size_t length = 1; low < high; ++length) {
      // Texts of [low, high) have the first `length` characters in common; the shortest comes
      // first.
      if (entries_[low].first.size() == length) found(length, entries_[low++].second);
      if (length == text.size()) return;
      const auto byte = static_cast<uint8_t>(text[length]);
      const auto less = [&](const auto& entry, int than) {
        return int{static_cast<uint8_t>(entry.first[length])} < than;
      };
      const auto begin = entries_.begin();
      const auto first =
          std::lower_bound(begin + static_cast<std::ptrdiff_t>(low),
                           begin + static_cast<std::ptrdiff_t>(high), int{byte}, less);
      const auto last =
          std::lower_bound(first, begin + static_cast<std::ptrdiff_t>(high), int{byte} + 1, less);
      low = static_cast<size_t>(first - begin);
      high = static_cast<size_t>(last - begin);
    }
  }

 private:
  std::vector<std::pair<std::string, int32_t>> entries_;  // sorted by bytes
  size_t begins_[257] = {};  // by first byte: index of the first entry that is not less
};

}  // namespace hg
