// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions with the channels last, as their definition.
#include "kernels/activation.h"
#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

void run(const Call& c) {
  const Array &x = c.in[0], &weight = c.in[1];
  Array& y = c.out[0];
  const auto number = [&](std::string_view name, int i) {
    const Sizes given = c.attrs.integers(name);
    return given[given.rank() == 1 ? 0 : i];
  };
  const kernels::Activation activation = kernels::activation_named(c.attrs.string("activation"));
  for (int64_t at = 0; at < y.count(); ++at) {
    const Sizes p = position(y.shape, at);
    double sum = c.in.size() > 2 && c.in[2].given ? c.in[2].at(p[3]) : 0;
    for (int64_t ky = 0; ky < weight.shape[2]; ++ky)
      for (int64_t kx = 0; kx < weight.shape[3]; ++kx) {
        const int64_t i =
            p[1] * number("stride", 0) - number("padding", 0) + ky * number("dilation", 0);
        const int64_t j =
            p[2] * number("stride", 1) - number("padding", 1) + kx * number("dilation", 1);
        if (i < 0 || i >= x.shape[1] || j < 0 || j >= x.shape[2]) continue;
        sum += x.at(flat(x.shape, {p[0], i, j, p[3]})) *
               weight.at(flat(weight.shape, {p[3], 0, ky, kx}));
      }
    if (c.in.size() > 3 && c.in[3].given) sum += c.in[3].at(at);
    y.at(at) = kernels::activate(activation, sum);
  }
}

constexpr Row kRows[] = {{"conv_channels_last", run}};

}  // namespace

std::span<const Row> conv_channels_last() { return kRows; }

}  // namespace hg::reference::rows
