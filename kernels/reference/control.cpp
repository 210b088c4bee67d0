// SPDX-License-Identifier: Apache-2.0
// Sizes as tensors.
#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

void dims(const Call& c) {
  const Sizes values = c.attrs.integers("values");
  for (int i = 0; i < values.rank(); ++i) c.out[0].at(i) = static_cast<double>(values[i]);
}

void extent(const Call&) {}  // empty

void assert_true(const Call& c) { c.out[0].at(0) = c.in[0].at(0); }  // where it holds

constexpr Row kRows[] = {{"dims", dims}, {"extent", extent}, {"assert_true", assert_true}};

}  // namespace

std::span<const Row> control() { return kRows; }

}  // namespace hg::reference::rows
