// SPDX-License-Identifier: Apache-2.0
// Gradients of the norms, by definition: the effect of a small change of x on every z.
#include <cmath>
#include <vector>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// group(at): the group with which element `at` is normalized; affine(at): the position of its
// weight.
template <class Group, class Affine>
void norm_grad_run(const Call& c, int64_t groups, const Group& group, const Affine& affine) {
  std::vector<std::vector<int64_t>> members(static_cast<size_t>(groups));
  for (int64_t at = 0; at < c.in[0].count(); ++at) members[group(at)].push_back(at);
  for (size_t i = 1; i < 3; ++i)
    for (int64_t k = 0; k < c.out[i].count(); ++k) c.out[i].at(k) = 0;
  for (int64_t g = 0; g < groups; ++g) {
    const double n = static_cast<double>(members[g].size());
    double mean = 0, var = 0, d_sum = 0, dz_sum = 0;
    for (const int64_t at : members[g]) mean += c.in[0].at(at) / n;
    for (const int64_t at : members[g]) var += std::pow(c.in[0].at(at) - mean, 2) / n;
    const double root = std::sqrt(var + c.attrs.real("eps"));
    const auto dz = [&](int64_t at) {
      return c.in[2].at(at) * (c.in[1].given ? c.in[1].at(affine(at)) : 1);
    };
    const auto z = [&](int64_t at) { return (c.in[0].at(at) - mean) / root; };
    for (const int64_t at : members[g]) {
      d_sum += dz(at);
      dz_sum += dz(at) * z(at);
      c.out[1].at(affine(at)) += c.in[2].at(at) * z(at);
      c.out[2].at(affine(at)) += c.in[2].at(at);
    }
    for (const int64_t at : members[g])
      c.out[0].at(at) = (dz(at) - d_sum / n - z(at) * dz_sum / n) / root;
  }
}

void layer_norm_grad(const Call& c) {
  const int64_t count = c.attrs.integers("normalized_shape").count();
  if (count == 0) return;
  norm_grad_run(
      c, c.in[0].count() / count, [&](int64_t at) { return at / count; },
      [&](int64_t at) { return at % count; });
}

void batch_norm_grad(const Call& c) {
  const Sizes& shape = c.in[0].shape;
  int64_t space = 1;
  for (int i = 2; i < shape.rank(); ++i) space *= shape[i];
  const auto channel = [&](int64_t at) { return at / space % shape[1]; };
  norm_grad_run(c, shape[1], channel, channel);
}

constexpr Row kRows[] = {
    {"layer_norm_grad", layer_norm_grad},
    {"batch_norm_grad", batch_norm_grad},
};

}  // namespace

std::span<const Row> norm_grad() { return kRows; }

}  // namespace hg::reference::rows
