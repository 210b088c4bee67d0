// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of 8-bit integers: zero points are subtracted from each factor, and
// each sum is scaled and rounded separately.
#include <algorithm>
#include <cmath>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// Input i at a position, or its single number; 0 if it is not given.
double at(const Call& c, size_t i, int64_t place) {
  if (!given(c, i)) return 0;
  return c.in[i].count() == 1 ? c.in[i].at(0) : c.in[i].at(place);
}

// The result of a sum at the channel or column `place`.
double finished(const Call& c, double sum, int64_t place) {
  sum += at(c, 4, place);
  if (!given(c, 5)) return sum;
  const double scaled = static_cast<float>(sum) * static_cast<float>(at(c, 5, place));
  if (!given(c, 6)) return scaled;
  const double low = c.in[6].dtype == i8 ? -128 : 0;
  return std::clamp(std::nearbyint(scaled) + at(c, 6, 0), low, low + 255);
}

void matmul_integer_run(const Call& c) {
  const Array &a = c.in[0], &b = c.in[1];
  const Sizes& shape = c.out[0].shape;
  const int rank = shape.rank();
  const int64_t m = shape[rank - 2], n = shape[rank - 1], k = a.shape.back();
  // The matrix of an operand at a batch position of the result.
  const auto matrix = [&](const Array& of, const Sizes& position) {
    int64_t index = 0;
    for (int d = 0; d < of.shape.rank() - 2; ++d)
      index = index * of.shape[d] + (of.shape[d] == 1 ? 0 : position[d + rank - of.shape.rank()]);
    return index;
  };
  for_positions(shape, [&](int64_t i, const Sizes& position) {
    const int64_t row = position[rank - 2], column = position[rank - 1];
    const int64_t in_a = matrix(a, position), in_b = matrix(b, position);
    const bool own_a = given(c, 2) && c.in[2].shape.rank() > 1,
               own_b = given(c, 3) && c.in[3].shape.rank() > 1;
    const double a_zero = at(c, 2, own_a ? in_a * m + row : row),
                 b_zero = at(c, 3, own_b ? in_b * n + column : column);
    double sum = 0;
    for (int64_t p = 0; p < k; ++p)
      sum +=
          (a.at((in_a * m + row) * k + p) - a_zero) * (b.at((in_b * k + p) * n + column) - b_zero);
    c.out[0].at(i) = finished(c, sum, column);
  });
}

// x_is_last, y_is_last: whether the channels are the last dim.
void convolve(const Call& c, int64_t groups, bool x_is_last, bool y_is_last) {
  const Array &x = c.in[0], &weight = c.in[1];
  const Sizes& shape = c.out[0].shape;
  const int dims = shape.rank() - 2;
  // Where the channels are, and the first spatial dim.
  const int x_channels = x_is_last ? dims + 1 : 1, x_dims = x_is_last ? 1 : 2;
  const int y_channels = y_is_last ? dims + 1 : 1, y_dims = y_is_last ? 1 : 2;
  const Sizes stride = listed(c.attrs, "stride", dims), padding = listed(c.attrs, "padding", dims),
              dilation = listed(c.attrs, "dilation", dims);
  const int64_t group_c = weight.shape[1], group_o = weight.shape[0] / groups;
  const int64_t depth = weight.count() / std::max<int64_t>(1, weight.shape[0]);
  const double x_zero = at(c, 2, 0);
  Sizes kernel = weight.shape;
  kernel.erase(0);
  for_positions(shape, [&](int64_t i, const Sizes& position) {
    const int64_t o = position[y_channels];
    double sum = 0;
    for_positions(kernel, [&](int64_t k, const Sizes& tap) {
      Sizes from = x.shape;
      from[0] = position[0];
      from[x_channels] = o / group_o * group_c + tap[0];
      bool inside = true;
      for (int d = 0; d < dims; ++d) {
        const int64_t along =
            position[y_dims + d] * stride[d] - padding[d] + tap[d + 1] * dilation[d];
        inside = inside && along >= 0 && along < x.shape[x_dims + d];
        from[x_dims + d] = along;
      }
      if (inside)
        sum += (x.at(flat(x.shape, from)) - x_zero) * (weight.at(o * depth + k) - at(c, 3, o));
    });
    c.out[0].at(i) = finished(c, sum, o);
  });
}

void conv_integer_run(const Call& c) { convolve(c, c.attrs.integer("groups"), false, false); }
void channels_last_run(const Call& c) { convolve(c, 1, true, true); }
void to_channels_last_run(const Call& c) { convolve(c, 1, false, true); }

constexpr Row kRows[] = {
    {"matmul_integer", matmul_integer_run},
    {"conv_integer", conv_integer_run},
    {"conv_integer_channels_last", channels_last_run},
    {"conv_integer_to_channels_last", to_channels_last_run},
};

}  // namespace

std::span<const Row> integer() { return kRows; }

}  // namespace hg::reference::rows
