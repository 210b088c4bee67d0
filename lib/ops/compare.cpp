// SPDX-License-Identifier: Apache-2.0
// Comparisons and logic on two tensors of one dtype; the result is bool.
#include "lib/ops/pointwise.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

constexpr OpDef test(std::string_view signature, uint32_t traits = 0) {
  return {.signature = signature,
          .infer = infer_test_binary,
          .alias = 3,
          .traits = traits | kElementwise | kNoGradient};
}

// Comparisons and logic on two tensors of one dtype. Shapes broadcast; the result is bool.
constexpr OpDef kOps[] = {
    // a == b
    test("eq(a, b) -> y", kCommutative),
    // a != b
    test("ne(a, b) -> y", kCommutative),
    // a < b
    test("lt(a, b) -> y"),
    // a <= b
    test("le(a, b) -> y"),
    // a > b
    test("gt(a, b) -> y"),
    // a >= b
    test("ge(a, b) -> y"),
    // a != 0 and b != 0
    test("logical_and(a, b) -> y", kCommutative),
    // a != 0 or b != 0
    test("logical_or(a, b) -> y", kCommutative),
    // (a != 0) != (b != 0)
    test("logical_xor(a, b) -> y", kCommutative),
};

}  // namespace

std::span<const OpDef> compare() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
