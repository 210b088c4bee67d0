// SPDX-License-Identifier: Apache-2.0
// Reductions over any dims.
#include <algorithm>
#include <cmath>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

using Group = std::vector<double>;

// The elements of each result, in order.
std::vector<Group> groups_of(const Call& c, Sizes dims) {
  const Array& x = c.in[0];
  const int rank = x.shape.rank();
  bool reduced[kMaxRank] = {};
  for (int d = 0; d < rank; ++d) reduced[d] = dims.empty();
  for (int64_t d : dims) reduced[d] = true;
  std::vector<Group> groups(c.out[0].count());
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t rest = i, at = 0, step = 1;
    for (int d = rank - 1; d >= 0; --d) {
      if (!reduced[d]) {
        at += rest % x.shape[d] * step;
        step *= x.shape[d];
      }
      rest /= x.shape[d];
    }
    groups[at].push_back(x.at(i));
  }
  return groups;
}
template <double (*f)(const Group&, const KernelAttrs&)>
void reduce_dims(const Call& c) {
  const std::vector<Group> groups = groups_of(c, c.attrs.axes("dim", c.in[0].shape.rank()));
  for (size_t i = 0; i < groups.size(); ++i) c.out[0].values[i] = f(groups[i], c.attrs);
}

double sum(const Group& g, const KernelAttrs&) {
  double y = 0;
  for (double x : g) y += x;
  return y;
}
double prod(const Group& g, const KernelAttrs&) {
  double y = 1;
  for (double x : g) y *= x;
  return y;
}
double mean(const Group& g, const KernelAttrs& a) {
  return sum(g, a) / static_cast<double>(g.size());
}
// NaN if there is one.
double amax(const Group& g, const KernelAttrs&) {
  double y = g[0];
  for (double x : g) y = std::isnan(x) || x > y ? x : y;
  return y;
}
double amin(const Group& g, const KernelAttrs&) {
  double y = g[0];
  for (double x : g) y = std::isnan(x) || x < y ? x : y;
  return y;
}
double all(const Group& g, const KernelAttrs&) {
  return std::all_of(g.begin(), g.end(), [](double x) { return x != 0; });
}
double any(const Group& g, const KernelAttrs&) {
  return std::any_of(g.begin(), g.end(), [](double x) { return x != 0; });
}
double var(const Group& g, const KernelAttrs& a) {
  const double centre = mean(g, a);
  double y = 0;
  for (double x : g) y += (x - centre) * (x - centre);
  return y / std::max(0.0, static_cast<double>(g.size()) - a.real("correction"));
}
double std_of(const Group& g, const KernelAttrs& a) { return std::sqrt(var(g, a)); }
double norm(const Group& g, const KernelAttrs& a) {
  const double p = a.real("ord");
  double total = 0, top = 0, low = HUGE_VAL, nonzero = 0;
  for (double x : g) {
    total += std::pow(std::abs(x), p);
    top = std::max(top, std::abs(x));
    low = std::min(low, std::abs(x));
    nonzero += x != 0;
  }
  if (std::isinf(p)) return p > 0 ? top : low;
  return p == 0 ? nonzero : std::pow(total, 1 / p);
}
double logsumexp(const Group& g, const KernelAttrs&) {
  double y = 0;
  for (double x : g) y += std::exp(x);
  return std::log(y);
}

template <bool largest, bool values>
void extreme(const Call& c) {
  Sizes dims;
  if (c.attrs.has("dim") && c.in[0].shape.rank() > 0)
    dims.push_back(c.attrs.axis("dim", c.in[0].shape.rank()));
  const std::vector<Group> groups = groups_of(c, dims);
  for (size_t i = 0; i < groups.size(); ++i) {
    const Group& g = groups[i];
    const auto at =
        largest ? std::max_element(g.begin(), g.end()) : std::min_element(g.begin(), g.end());
    if (values) c.out[0].values[i] = *at;
    c.out[values ? 1 : 0].values[i] = static_cast<double>(at - g.begin());
  }
}

constexpr Row kRows[] = {
    {"sum", reduce_dims<sum>},
    {"prod", reduce_dims<prod>},
    {"mean", reduce_dims<mean>},
    {"amax", reduce_dims<amax>},
    {"amin", reduce_dims<amin>},
    {"all", reduce_dims<all>},
    {"any", reduce_dims<any>},
    {"var", reduce_dims<var>},
    {"std", reduce_dims<std_of>},
    {"norm", reduce_dims<norm>},
    {"logsumexp", reduce_dims<logsumexp>},
    {"argmax", extreme<true, false>},
    {"argmin", extreme<false, false>},
    {"max", extreme<true, true>},
    {"min", extreme<false, true>},
};

}  // namespace

std::span<const Row> reduce() { return kRows; }

}  // namespace hg::reference::rows
