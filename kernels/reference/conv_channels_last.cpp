// SPDX-License-Identifier: Apache-2.0
// Channels-last depthwise convolutions, and convolutions with channels-last results, by definition.
#include "kernels/pointwise/activation.h"
#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// element(position of y, channel, row and column of x) returns an element of x.
template <class Element>
void convolve(const Call& c, int64_t rows, int64_t columns, const Element& element) {
  const Array& weight = c.in[1];
  Array& y = c.out[0];
  const Sizes stride = listed(c.attrs, "stride", 2), padding = listed(c.attrs, "padding", 2),
              dilation = listed(c.attrs, "dilation", 2);
  const Activation activation = *parse_activation(c.attrs.string("activation"));
  for_positions(y.shape, [&](int64_t at, const Sizes& p) {
    double sum = given(c, 2) ? c.in[2].at(p[3]) : 0;
    for (int64_t channel = 0; channel < weight.shape[1]; ++channel)
      for (int64_t ky = 0; ky < weight.shape[2]; ++ky)
        for (int64_t kx = 0; kx < weight.shape[3]; ++kx) {
          const int64_t i = p[1] * stride[0] - padding[0] + ky * dilation[0];
          const int64_t j = p[2] * stride[1] - padding[1] + kx * dilation[1];
          if (i < 0 || i >= rows || j < 0 || j >= columns) continue;
          sum += element(p, channel, i, j) * weight.at(flat(weight.shape, {p[3], channel, ky, kx}));
        }
    if (given(c, 3)) sum += c.in[3].at(at);
    y.at(at) = kernels::activate(activation, sum);
  });
}

void conv_channels_last_run(const Call& c) {
  const Array& x = c.in[0];
  convolve(c, x.shape[1], x.shape[2], [&](const Sizes& p, int64_t, int64_t i, int64_t j) {
    return x.at(flat(x.shape, {p[0], i, j, p[3]}));
  });
}

void run_dense(const Call& c) {
  const Array& x = c.in[0];
  convolve(c, x.shape[1], x.shape[2], [&](const Sizes& p, int64_t channel, int64_t i, int64_t j) {
    return x.at(flat(x.shape, {p[0], i, j, channel}));
  });
}

void run_entry(const Call& c) {
  const Array& x = c.in[0];
  convolve(c, x.shape[2], x.shape[3], [&](const Sizes& p, int64_t channel, int64_t i, int64_t j) {
    return x.at(flat(x.shape, {p[0], channel, i, j}));
  });
}

constexpr Row kRows[] = {{"conv_channels_last", conv_channels_last_run},
                         {"conv_dense_channels_last", run_dense},
                         {"conv_to_channels_last", run_entry}};

}  // namespace

std::span<const Row> conv_channels_last() { return kRows; }

}  // namespace hg::reference::rows
