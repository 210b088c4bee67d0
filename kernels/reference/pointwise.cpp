// SPDX-License-Identifier: Apache-2.0
// Elementwise ops that select, limit and convert.
#include "kernels/reference/pointwise.h"

#include <cmath>

namespace hg::reference::rows {
namespace {

void cast(const Call& c) {
  for (int64_t i = 0; i < c.out[0].count(); ++i) {
    const double x = c.in[0].at(i);
    c.out[0].at(i) = is_float(c.out[0].dtype)    ? x
                     : c.out[0].dtype == boolean ? x != 0
                                                 : std::trunc(x);
  }
}
void clamp(const Call& c) {
  const Sizes& shape = c.out[0].shape;
  const Broadcast x(c.in[0], shape), low(c.in[1], shape), high(c.in[2], shape);
  for (int64_t i = 0; i < c.out[0].count(); ++i) {
    double y = x.at(i);
    if (c.in[1].given) y = std::max(y, low.at(i));
    if (c.in[2].given) y = std::min(y, high.at(i));
    c.out[0].at(i) = y;
  }
}
double where(double condition, double a, double b) { return condition != 0 ? a : b; }
double lerp(double a, double b, double w) { return a + w * (b - a); }

constexpr Row kRows[] = {
    {"cast", cast},
    {"to_integer", cast},
    {"clamp", clamp},
    {"where", ternary_loop<where>},
    {"lerp", ternary_loop<lerp>},
};

}  // namespace

std::span<const Row> pointwise() { return kRows; }

}  // namespace hg::reference::rows
