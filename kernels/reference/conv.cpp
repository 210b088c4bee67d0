// SPDX-License-Identifier: Apache-2.0
// Convolutions by definition: every input element is multiplied by every kernel element, and the
// products for each output element are summed.
#include "kernels/pointwise/activation.h"
#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

struct Geometry {
  Sizes stride, padding, dilation;
};

Sizes spatial(const KernelAttrs& attrs, std::string_view name, int dims) {
  const Sizes given = attrs.integers(name);
  return given.rank() == 1 ? Sizes(dims, given[0]) : given;
}

Geometry geometry(const KernelAttrs& attrs, int dims) {
  return {spatial(attrs, "stride", dims), spatial(attrs, "padding", dims),
          spatial(attrs, "dilation", dims)};
}

Sizes from(const Sizes& shape, int first) {
  Sizes rest;
  for (int i = first; i < shape.rank(); ++i) rest.push_back(shape[i]);
  return rest;
}

// The index in `shape` of near stride - padding + kernel dilation, or -1 if it is outside.
int64_t far_index(const Geometry& g, const Sizes& near, const Sizes& kernel, const Sizes& shape) {
  int64_t index = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t at = near[i] * g.stride[i] - g.padding[i] + kernel[i] * g.dilation[i];
    if (at < 0 || at >= shape[i]) return -1;
    index = index * shape[i] + at;
  }
  return index;
}

struct Pair {
  int64_t near, far, kernel;  // elements of one plane, or of the kernel
};

// All pairs of one plane: near is y (x if transposed), far is x (y if transposed).
std::vector<Pair> pairs_of(const Geometry& g, const Sizes& near, const Sizes& far,
                           const Sizes& kernel) {
  std::vector<Pair> pairs;
  for_positions(near, [&](int64_t i, const Sizes& from) {
    for_positions(kernel, [&](int64_t k, const Sizes& tap) {
      const int64_t at = far_index(g, from, tap, far);
      if (at >= 0) pairs.push_back({i, at, k});
    });
  });
  return pairs;
}

void conv_run(const Call& c) {
  const Array &x = c.in[0], &weight = c.in[1];
  Array& y = c.out[0];
  const bool transposed = c.attrs.flag("transposed");
  const int64_t groups = c.attrs.integer("groups");
  const Sizes x_size = from(x.shape, 2), y_size = from(y.shape, 2), kernel = from(weight.shape, 2);
  const Geometry g = geometry(c.attrs, x_size.rank());
  const int64_t group_c = x.shape[1] / groups, group_o = y.shape[1] / groups;
  const std::vector<Pair> pairs =
      transposed ? pairs_of(g, x_size, y_size, kernel) : pairs_of(g, y_size, x_size, kernel);
  for (int64_t n = 0; n < x.shape[0]; ++n)
    for (int64_t o = 0; o < y.shape[1]; ++o)
      for (int64_t i = 0; i < group_c; ++i) {
        const int64_t channel = o / group_o * group_c + i;
        const int64_t x_plane = (n * x.shape[1] + channel) * x_size.count();
        const int64_t y_plane = (n * y.shape[1] + o) * y_size.count();
        const int64_t w =
            (transposed ? channel * group_o + o % group_o : o * group_c + i) * kernel.count();
        for (const Pair& pair : pairs)
          y.at(y_plane + (transposed ? pair.far : pair.near)) +=
              x.at(x_plane + (transposed ? pair.near : pair.far)) * weight.at(w + pair.kernel);
      }
  const Activation activation = *parse_activation(c.attrs.string("activation"));
  for (int64_t at = 0; at < y.count(); ++at) {
    if (given(c, 2)) y.at(at) += c.in[2].at(at / y_size.count() % y.shape[1]);
    if (given(c, 3)) y.at(at) += c.in[3].at(at);
    y.at(at) = kernels::activate(activation, y.at(at));
  }
}

void conv_weight_grad_run(const Call& c) {
  const Array &x = c.in[0], &dy = c.in[1];
  Array& dw = c.out[0];
  const Sizes x_size = from(x.shape, 2), dy_size = from(dy.shape, 2), kernel = from(dw.shape, 2);
  const Geometry g = geometry(c.attrs, x_size.rank());
  const int64_t groups = c.attrs.integer("groups");
  const int64_t group_c = x.shape[1] / groups, group_o = dy.shape[1] / groups;
  const std::vector<Pair> pairs = pairs_of(g, dy_size, x_size, kernel);
  for (int64_t n = 0; n < x.shape[0]; ++n)
    for (int64_t o = 0; o < dy.shape[1]; ++o)
      for (int64_t i = 0; i < group_c; ++i) {
        const int64_t channel = o / group_o * group_c + i;
        const int64_t x_plane = (n * x.shape[1] + channel) * x_size.count();
        const int64_t dy_plane = (n * dy.shape[1] + o) * dy_size.count();
        for (const Pair& pair : pairs)
          dw.at((o * group_c + i) * kernel.count() + pair.kernel) +=
              dy.at(dy_plane + pair.near) * x.at(x_plane + pair.far);
      }
}

constexpr Row kRows[] = {
    {"conv", conv_run},
    {"conv_weight_grad", conv_weight_grad_run},
};

}  // namespace

std::span<const Row> conv() { return kRows; }

}  // namespace hg::reference::rows
