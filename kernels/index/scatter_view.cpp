// SPDX-License-Identifier: Apache-2.0
// Copies x, then writes src to the elements that a view of x covers.
#include <optional>

#include "hg/kernel.h"
#include "kernels/strided_copy.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct Target {
  int64_t offset = 0;
  Sizes strides;
};

// If nothing is written, or only one element along a dim, the attributes may be any numbers.
Status slice_prepare(PrepareContext& c) {
  Target target{0, c.out(0).strides};
  const int dim = c.attrs().axis("dim", c.out(0).rank());
  target.offset = c.attrs().integer("start") * target.strides[dim];
  if (c.in(1).shape[dim] > 1) target.strides[dim] *= c.attrs().integer("step");
  c.make_state(target);
  return {};
}

Status diagonal_prepare(PrepareContext& c) {
  Target target;
  const Sizes& strides = c.out(0).strides;
  const int rank = strides.rank();
  const int dim1 = c.attrs().axis("dim1", rank), dim2 = c.attrs().axis("dim2", rank);
  const int64_t offset = c.attrs().integer("offset");
  for (int d = 0; d < rank; ++d)
    if (d != dim1 && d != dim2) target.strides.push_back(strides[d]);
  target.strides.push_back(strides[dim1] + strides[dim2]);
  if (c.in(1).count() > 0)
    target.offset = offset >= 0 ? offset * strides[dim2] : -offset * strides[dim1];
  c.make_state(target);
  return {};
}

Status as_strided_prepare(PrepareContext& c) {
  Target target;
  for (const Dim& stride : c.attrs().dims("stride"))
    target.strides.push_back(c.in(1).shape[target.strides.rank()] > 1 ? stride.constant() : 1);
  target.offset = c.attrs().integer("storage_offset");
  c.make_state(target);
  return {};
}

// A copy of x, and the view of it that receives the source; empty if there is nothing to write.
std::optional<Tensor> part_of_copy(const RunContext& c) {
  const Target& target = c.state<Target>();
  const Tensor& y = c.out(0);
  if (c.in(0).data != y.data) copy_strided(c, c.in(0), y);
  if (c.in(1).count() == 0) return std::nullopt;
  Tensor part = c.in(1);
  part.data = y.as<std::byte>() + target.offset * size_of(y.dtype);
  part.strides = target.strides;
  return part;
}

void write_run(const RunContext& c) noexcept {
  if (const auto part = part_of_copy(c)) copy_strided(c, c.in(1), *part);
}

// Elements of y may be written several times, in order; the last value stays.
void as_strided_run(const RunContext& c) noexcept {
  if (const auto part = part_of_copy(c)) copy_elements(c.in(1), *part);
}

constexpr KernelDef kKernels[] = {
    {.op = "slice_scatter",
     .name = "copy",
     .prepare = slice_prepare,
     .run = write_run,
     .strided = 3},
    {.op = "diagonal_scatter",
     .name = "copy",
     .prepare = diagonal_prepare,
     .run = write_run,
     .strided = 3},
    {.op = "as_strided_scatter",
     .name = "copy",
     .prepare = as_strided_prepare,
     .run = as_strided_run,
     .strided = 3},
};

}  // namespace

std::span<const KernelDef> scatter_view() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
