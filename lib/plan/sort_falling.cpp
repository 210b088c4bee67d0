// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/sort_falling.h"

#include <algorithm>
#include <numeric>

namespace hg {

void sort_falling(std::vector<int>& order, std::span<const double> keys) {
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] > keys[b]; });
}

std::vector<int> falling(std::span<const double> keys) {
  std::vector<int> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  sort_falling(order, keys);
  return order;
}

}  // namespace hg
