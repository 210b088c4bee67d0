// SPDX-License-Identifier: Apache-2.0
// Grouped products: every row looks up its group.
#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// The group of the row; the number of groups for a row after the last end.
int64_t group_of(const Array& ends, int64_t row) {
  int64_t e = 0;
  while (e < ends.count() && static_cast<double>(row) >= ends.at(e)) ++e;
  return e;
}

void grouped_mm_run(const Call& c) {
  const Array &a = c.in[0], &b = c.in[1], &ends = c.in[2];
  const int64_t m = a.shape[0], k = a.shape[1], n = b.shape.back(), groups = ends.count();
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p) {
      const int64_t e = group_of(ends, b.shape.rank() == 3 ? i : p);
      for (int64_t j = 0; j < n && e < groups; ++j) {
        if (b.shape.rank() == 3)
          c.out[0].at(i * n + j) += a.at(i * k + p) * b.at((e * k + p) * n + j);
        else
          c.out[0].at((e * m + i) * n + j) += a.at(i * k + p) * b.at(p * n + j);
      }
    }
}

constexpr Row kRows[] = {{"grouped_mm", grouped_mm_run}, {"mixed_grouped_mm", grouped_mm_run}};

}  // namespace

std::span<const Row> grouped_mm() { return kRows; }

}  // namespace hg::reference::rows
