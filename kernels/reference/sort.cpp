// SPDX-License-Identifier: Apache-2.0
// Sorting and selection along one dim.
#include <algorithm>
#include <limits>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

struct Item {
  double value;
  int64_t index;
};
using Line = std::vector<Item>;

// pick(line, attrs) returns the items of the result, for each line of x.
template <Line (*pick)(Line, const KernelAttrs&)>
void each_line(const Call& c) {
  const Array& x = c.in[0];
  const Lines lines(x, c.attrs);
  for (int64_t line = 0; line < lines.count; ++line) {
    Line items;
    for (int64_t i = 0; i < lines.length; ++i) items.push_back({x.at(lines.at(line, i)), i});
    const Line found = pick(items, c.attrs);
    const int64_t n = static_cast<int64_t>(found.size());
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = lines.at(line, i, n);
      c.out[0].at(at) = found[i].value;
      c.out[1].at(at) = static_cast<double>(found[i].index);
    }
  }
}

Line sorted(Line line, bool descending) {
  std::stable_sort(line.begin(), line.end(), [&](const Item& a, const Item& b) {
    return descending ? a.value > b.value : a.value < b.value;
  });
  return line;
}
Line sort_line(Line line, const KernelAttrs& a) { return sorted(line, a.flag("descending")); }
Line topk(Line line, const KernelAttrs& a) {
  line = sorted(line, a.flag("largest"));
  line.resize(a.integer("k"));
  return line;
}
Line kthvalue(Line line, const KernelAttrs& a) { return {sorted(line, false)[a.integer("k") - 1]}; }
Line middle(Line line, const KernelAttrs&) { return {sorted(line, false)[(line.size() - 1) / 2]}; }
// NaN, which < does not order, stays where std::sort leaves it, as in PyTorch.
Line mode(Line line, const KernelAttrs&) {
  std::sort(line.begin(), line.end(),
            [](const Item& a, const Item& b) { return a.value < b.value; });
  Item best{};
  int64_t most = 0, count = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    ++count;
    if (i + 1 < line.size() && line[i].value == line[i + 1].value) continue;
    if (count > most) best = line[i];
    most = std::max(most, count);
    count = 0;
  }
  return {best};
}

// The median of nothing is NaN.
void median(const Call& c) {
  each_line<middle>(c);
  if (c.in[0].count() == 0 && is_float(c.in[0].dtype))
    for (double& value : c.out[0].values) value = std::numeric_limits<double>::quiet_NaN();
}

constexpr Row kRows[] = {
    {"sort", each_line<sort_line>},
    {"topk", each_line<topk>},
    {"kthvalue", each_line<kthvalue>},
    {"median", median},
    {"nanmedian", median},
    {"mode", each_line<mode>},
};

}  // namespace

std::span<const Row> sort() { return kRows; }

}  // namespace hg::reference::rows
