// SPDX-License-Identifier: Apache-2.0
// Gates, similarities and distances.
#include <algorithm>
#include <cmath>

#include "kernels/reference/pointwise.h"

namespace hg::reference::rows {
namespace {

void glu(const Call& c) {
  const Sizes& shape = c.in[0].shape;
  const int dim = c.attrs.axis("dim", shape.rank());
  for_positions(c.out[0].shape, [&](int64_t i, Sizes at) {
    const double a = c.in[0].at(flat(shape, at));
    at[dim] += shape[dim] / 2;
    c.out[0].at(i) = a * sigmoid(c.in[0].at(flat(shape, at)));
  });
}

void prelu(const Call& c) {
  const Array &x = c.in[0], &weight = c.in[1];
  const Sizes& shape = c.out[0].shape;
  const bool by_channel = weight.shape.rank() == 1 && weight.count() > 1 && x.shape.rank() > 1;
  const Broadcast of_x(x, shape), of_weight(weight, shape);
  for_positions(shape, [&](int64_t i, const Sizes& p) {
    const double w = by_channel ? weight.at(p[1]) : of_weight.at(i), v = of_x.at(i);
    c.out[0].at(i) = v > 0 ? v : w * v;
  });
}

void cosine_similarity(const Call& c) {
  const Sizes shape = common_shape({c.in[0].shape, c.in[1].shape});
  const int dim = c.attrs.axis("dim", shape.rank());
  const double eps = c.attrs.real("eps");
  const Broadcast of_a(c.in[0], shape), of_b(c.in[1], shape);
  for (int64_t o = 0; o < c.out[0].count(); ++o) {
    double ab = 0, aa = 0, bb = 0;
    for (int64_t k = 0; k < shape[dim]; ++k) {
      const int64_t i = along(shape, dim, o, k);
      const double a = of_a.at(i), b = of_b.at(i);
      ab += a * b;
      aa += a * a;
      bb += b * b;
    }
    c.out[0].at(o) = ab / (std::max(std::sqrt(aa), eps) * std::max(std::sqrt(bb), eps));
  }
}

void pairwise_distance(const Call& c) {
  const Sizes shape = common_shape({c.in[0].shape, c.in[1].shape});
  const double p = c.attrs.real("p"), eps = c.attrs.real("eps");
  const int64_t length = shape.back();
  const Broadcast a(c.in[0], shape), b(c.in[1], shape);
  for (int64_t o = 0; o < c.out[0].count(); ++o) {
    std::vector<double> d;
    for (int64_t i = o * length; i < (o + 1) * length; ++i) d.push_back(a.at(i) - b.at(i) + eps);
    c.out[0].at(o) = p_norm(d, p);
  }
}

constexpr Row kRows[] = {
    {"glu", glu},
    {"prelu", prelu},
    {"cosine_similarity", cosine_similarity},
    {"pairwise_distance", pairwise_distance},
};

}  // namespace

std::span<const Row> composite() { return kRows; }

}  // namespace hg::reference::rows
