// SPDX-License-Identifier: Apache-2.0
#include "kernels/integer/conv_integer.h"

namespace hg::kernels {

ConvShape conv_integer_shape(const Sizes& x, const Sizes& weight, const Sizes& y,
                             const KernelAttrs& attrs) {
  ConvShape s;
  s.n = x[0];
  s.c = x[1];
  s.o = weight[0];
  const Sizes stride = attrs.integers("stride"), padding = attrs.integers("padding"),
              dilation = attrs.integers("dilation");
  const int dims = x.rank() - 2;
  for (int i = 0; i < dims; ++i) {
    const auto to = static_cast<size_t>(3 - dims + i);
    const auto number = [&](const Sizes& given) { return given[given.rank() == 1 ? 0 : i]; };
    s.in[to] = x[2 + i];
    s.out[to] = y[2 + i];
    s.kernel[to] = weight[2 + i];
    s.stride[to] = number(stride);
    s.padding[to] = number(padding);
    s.dilation[to] = number(dilation);
  }
  return s;
}

ConvShape conv_integer_shape(const PrepareContext& c) {
  ConvShape s = conv_integer_shape(c.in(0).shape, c.in(1).shape, c.out(0).shape, c.attrs());
  s.groups = c.attrs().integer("groups");
  return s;
}

void conv_integer_starts(const RunContext& c, int64_t channels, const int32_t* weight_sums,
                         int more, int32_t* to) {
  const auto zero = static_cast<uint32_t>(more + (c.has(2) ? zero_points(c.in(2)).at(0) : 0));
  const int32_t* const bias = c.has(4) ? c.in(4).as<int32_t>() : nullptr;
  for (int64_t o = 0; o < channels; ++o) {
    const uint32_t sum =
        (bias ? static_cast<uint32_t>(bias[o]) : 0) - zero * static_cast<uint32_t>(weight_sums[o]);
    to[o] = static_cast<int32_t>(sum);
  }
}

}  // namespace hg::kernels
