// SPDX-License-Identifier: Apache-2.0
// Comparisons and logic on two tensors of one dtype; the result is bool.
#include "lib/ops/pointwise.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

constexpr OpDef test(std::string_view name, std::string_view signature, uint32_t traits = 0) {
  return {.name = name,
          .signature = signature,
          .infer = infer_test_binary,
          .alias = 3,
          .traits = traits | kElementwise | kNoGradient};
}

constexpr OpDef kOps[] = {
    test("eq", "eq(a, b) -> y", kCommutative),
    test("ne", "ne(a, b) -> y", kCommutative),
    test("lt", "lt(a, b) -> y"),
    test("le", "le(a, b) -> y"),
    test("gt", "gt(a, b) -> y"),
    test("ge", "ge(a, b) -> y"),
    test("logical_and", "logical_and(a, b) -> y", kCommutative),
    test("logical_or", "logical_or(a, b) -> y", kCommutative),
    test("logical_xor", "logical_xor(a, b) -> y", kCommutative),
};

}  // namespace

std::span<const OpDef> compare() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
