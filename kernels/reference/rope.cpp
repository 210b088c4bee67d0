// SPDX-License-Identifier: Apache-2.0
// Rotary position embeddings.
#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// The element of `angle`, which broadcasts to `shape`, at position p.
double angle_at(const Array& angle, const Sizes& p) {
  const int missing = p.rank() - angle.shape.rank();
  int64_t at = 0;
  for (int d = 0; d < angle.shape.rank(); ++d)
    at = at * angle.shape[d] + (angle.shape[d] == 1 ? 0 : p[d + missing]);
  return angle.at(at);
}

void rope(const Call& c) {
  const Array& x = c.in[0];
  const int64_t half = x.shape.back() / 2;
  for_positions(x.shape, [&](int64_t at, const Sizes& p) {
    const double rotated = p.back() < half ? -x.at(at + half) : x.at(at - half);
    c.out[0].at(at) = x.at(at) * angle_at(c.in[1], p) + rotated * angle_at(c.in[2], p);
  });
}

constexpr Row kRows[] = {{"rope", rope}};

}  // namespace

std::span<const Row> rope() { return kRows; }

}  // namespace hg::reference::rows
