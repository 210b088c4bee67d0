// SPDX-License-Identifier: Apache-2.0
// Sizes as tensors. The session itself runs the ops `if` and `while`.
#include <string>

#include "hg/kernel.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

Status prepare_dims(PrepareContext& c) {
  c.make_state(c.attrs().integers("values"));
  return {};
}

void run_dims(const RunContext& c) noexcept {
  int64_t* out = c.out(0).as<int64_t>();
  for (const int64_t value : c.state<Sizes>()) *out++ = value;
}

void measure_extent(const RunContext& c, std::span<int64_t> dims) noexcept {
  const int64_t n = *c.in(0).as<int64_t>();
  if (n < 0) c.fail("a size that data decides is negative");
  dims[0] = n < 0 ? 0 : n;
}

void run_extent(const RunContext&) noexcept {}  // empty

Status prepare_assert(PrepareContext& c) {
  c.make_state(c.attrs().string("message"));
  return {};
}

void run_assert(const RunContext& c) noexcept {
  const bool holds = *c.in(0).as<bool>();
  *c.out(0).as<bool>() = holds;
  if (!holds) c.fail(c.state<std::string>().c_str());
}

constexpr KernelDef kKernels[] = {
    {.op = "dims", .name = "plain", .prepare = prepare_dims, .run = run_dims},
    {.op = "extent", .name = "plain", .run = run_extent, .measure = measure_extent},
    {.op = "assert_true", .name = "plain", .prepare = prepare_assert, .run = run_assert},
};

}  // namespace

std::span<const KernelDef> control() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
