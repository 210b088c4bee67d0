// SPDX-License-Identifier: Apache-2.0
// A stable merge sort without allocation.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hg::kernels {

// Orders the numbers [0, n) in `items`; `spare` has room for n. before(a, b): a comes strictly
// first.
template <class Before>
void merge_sort(int64_t* items, int64_t* spare, int64_t n, const Before& before) {
  constexpr int64_t kRun = 16;  // sorted by insertion
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const int64_t end = std::min(n, begin + kRun);
    for (int64_t i = begin + 1; i < end; ++i) {
      const int64_t item = items[i];
      int64_t k = i;
      for (; k > begin && before(item, items[k - 1]); --k) items[k] = items[k - 1];
      items[k] = item;
    }
  }
  int64_t* from = items;
  int64_t* to = spare;
  for (int64_t width = kRun; width < n; width *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * width) {
      const int64_t middle = std::min(n, begin + width), end = std::min(n, begin + 2 * width);
      int64_t a = begin, b = middle;
      for (int64_t k = begin; k < end; ++k)
        to[k] = b == end || (a < middle && !before(from[b], from[a])) ? from[a++] : from[b++];
    }
    std::swap(from, to);
  }
  if (from != items) std::copy(from, from + n, items);
}

}  // namespace hg::kernels
