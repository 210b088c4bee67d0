// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduce/order.h"

#include <utility>

namespace hg::kernels {

void radix_sort(int64_t* items, int64_t* spare, int64_t n) {
  constexpr int kBytes = 4, kValues = 256;
  uint32_t counts[kBytes][kValues] = {};
  const auto byte_of = [](int64_t item, int byte) {
    return static_cast<uint64_t>(item) >> (32 + 8 * byte) & (kValues - 1);
  };
  for (int64_t i = 0; i < n; ++i)
    for (int byte = 0; byte < kBytes; ++byte) ++counts[byte][byte_of(items[i], byte)];
  int64_t* from = items;
  int64_t* to = spare;
  for (int byte = 0; byte < kBytes; ++byte) {
    uint32_t* next = counts[byte];
    if (next[byte_of(items[0], byte)] == n) continue;
    uint32_t begin = 0;
    for (int value = 0; value < kValues; ++value) begin += std::exchange(next[value], begin);
    for (int64_t i = 0; i < n; ++i) to[next[byte_of(from[i], byte)]++] = from[i];
    std::swap(from, to);
  }
  for (int64_t i = 0; i < n; ++i) items[i] = from[i] & 0xffffffff;
}

}  // namespace hg::kernels
