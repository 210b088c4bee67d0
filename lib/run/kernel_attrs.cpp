// SPDX-License-Identifier: Apache-2.0
// Attributes as kernels read them. The planner has replaced every symbol by its number.
#include "hg/kernel.h"

namespace hg {
namespace {

int64_t from_start(int64_t axis, int rank) {
  return axis < 0 ? axis + (rank == 0 ? 1 : rank) : axis;
}

}  // namespace

Sizes KernelAttrs::integers(std::string_view name) const {
  Sizes out;
  for (const Dim& dim : attrs_.integers(name)) out.push_back(dim.constant());
  return out;
}

int KernelAttrs::axis(std::string_view name, int rank) const {
  return static_cast<int>(from_start(integer(name), rank));
}

Sizes KernelAttrs::axes(std::string_view name, int rank) const {
  Sizes out = integers(name);
  for (int64_t& axis : out) axis = from_start(axis, rank);
  return out;
}

}  // namespace hg
