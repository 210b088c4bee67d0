// SPDX-License-Identifier: Apache-2.0
// What kernels read and request. The planner has replaced every symbol by its number.
#include "hg/kernel.h"
#include "lib/plan/pack_cache.h"

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

void* PrepareContext::pack(int input, std::string_view kernel, int64_t bytes,
                           std::function<void(void* to)> fill) const {
  if (!is_constant(input) || call_.packs == nullptr || call_.low_memory) return nullptr;
  return call_.packs->pack(kernel, call_.ids[input], bytes, std::move(fill),
                           call_.device != nullptr);
}

}  // namespace hg
