// SPDX-License-Identifier: Apache-2.0
// The one order that the planner sorts by, as a function: each use of std::stable_sort takes some
// 2 KB of a program.
#pragma once

#include <span>
#include <vector>

namespace hg {

// Sorts indexes of `keys` by these, largest first; those of equal keys stay in order.
void sort_falling(std::vector<int>& order, std::span<const double> keys);
// All indexes of `keys`, so sorted.
std::vector<int> falling(std::span<const double> keys);

}  // namespace hg
