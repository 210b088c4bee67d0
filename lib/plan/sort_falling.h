// SPDX-License-Identifier: Apache-2.0
// The planner's sort, as one function: each instantiation of std::stable_sort adds about 2 KB of
// code.
#pragma once

#include <span>
#include <vector>

namespace hg {

// Sorts indices by their `keys`, largest first; stable.
void sort_falling(std::vector<int>& order, std::span<const double> keys);
// All indices of `keys`, sorted in this order.
std::vector<int> falling(std::span<const double> keys);

}  // namespace hg
