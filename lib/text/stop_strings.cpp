// SPDX-License-Identifier: Apache-2.0
#include "hg/text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace hg {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopStrings::push(std::string_view text) {
  if (found_) return {};
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    found_ = true;
    std::string out = held_.substr(0, first);
    held_.clear();
    return out;
  }
  // Holds back the longest suffix of the text that is a prefix of a stop string.
  size_t waits = 0;
  for (const std::string& stop : stops_)
    for (size_t size = std::min(stop.size() - 1, held_.size()); size > waits; --size)
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, size))) waits = size;
  std::string out = held_.substr(0, held_.size() - waits);
  held_.erase(0, out.size());
  return out;
}

std::string StopStrings::finish() { return found_ ? std::string() : std::exchange(held_, {}); }

}  // namespace hg
