// SPDX-License-Identifier: Apache-2.0
// Ops that find and count elements.
#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// Along a dim, items are compared as lists of their elements.
void unique(const Call& c) {
  const Array& x = c.in[0];
  const Lines lines(x, c.attrs);
  const int64_t n = lines.length;
  std::vector<std::vector<double>> items(n);
  for (int64_t line = 0; line < lines.count; ++line)
    for (int64_t i = 0; i < n; ++i) items[i].push_back(x.at(lines.at(line, i)));
  std::vector<std::vector<double>> found = items;
  if (!c.attrs.flag("consecutive")) std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  const int64_t size = static_cast<int64_t>(found.size());
  for (int64_t k = 0; k < size; ++k)
    for (int64_t line = 0; line < lines.count; ++line)
      c.out[0].at(lines.at(line, k, size)) = found[k][line];
  int64_t place = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!c.attrs.flag("consecutive"))
      place = std::lower_bound(found.begin(), found.end(), items[i]) - found.begin();
    else if (items[i] != found[place])
      ++place;
    c.out[1].at(i) = static_cast<double>(place);
    c.out[2].at(place) += 1;
  }
}

void searchsorted(const Call& c) {
  const Array &sorted = c.in[0], &values = c.in[1];
  const int64_t n = sorted.shape.back();
  const bool right = c.attrs.flag("right");
  for (int64_t i = 0; i < values.count(); ++i) {
    const int64_t line = sorted.shape.rank() > 1 ? i / values.shape.back() : 0;
    const auto begin = sorted.values.begin() + line * n, end = begin + n;
    const double value = values.at(i);
    const auto place = std::partition_point(
        begin, end, [&](double other) { return right ? other <= value : other < value; });
    c.out[0].at(i) = static_cast<double>(place - begin);
  }
}
void isin(const Call& c) {
  std::set<double> known;  // NaN equals nothing
  for (double y : c.in[1].values)
    if (!std::isnan(y)) known.insert(y);
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    const double x = c.in[0].at(i);
    c.out[0].at(i) = !std::isnan(x) && known.contains(x);
  }
}
void bincount(const Call& c) {
  for (int64_t i = 0; i < c.in[0].count(); ++i)
    c.out[0].at(static_cast<int64_t>(c.in[0].at(i))) += c.in[1].given ? c.in[1].at(i) : 1;
}
void histc(const Call& c) {
  const double low = c.attrs.real("min"), high = c.attrs.real("max");
  const double bins = static_cast<double>(c.out[0].count());
  for (double x : c.in[0].values)
    if (x >= low && x <= high)
      c.out[0].at(static_cast<int64_t>(std::min(bins - 1, (x - low) / (high - low) * bins))) += 1;
}

constexpr Row kRows[] = {
    {"unique", unique}, {"searchsorted", searchsorted}, {"isin", isin}, {"bincount", bincount},
    {"histc", histc},
};

}  // namespace

std::span<const Row> search() { return kRows; }

}  // namespace hg::reference::rows
