// SPDX-License-Identifier: Apache-2.0
// Comparisons and logic: both arguments are promoted to their common dtype, and the result is bool.
#include "converter/aten/complex.h"
#include "converter/aten/pointwise.h"
#include "converter/containers/container_ops.h"
#include "converter/script/fold.h"
#include "converter/script/script_ops.h"

namespace hg::convert::rows {
namespace {

template <const char* op>
void test(Call& call) {
  call.returns(call.graph().call(op, call.promoted({"self", "other"})));
}
constexpr char kEq[] = "eq", kNe[] = "ne", kLt[] = "lt", kLe[] = "le", kGt[] = "gt", kGe[] = "ge";
constexpr char kAnd[] = "logical_and", kOr[] = "logical_or", kXor[] = "logical_xor";

constexpr SharedTraits kShared = {.layout = ResultLayout::elementwise};
constexpr Row kRows[] = {
    {.op = "aten::eq",
     .run = test<kEq>,
     .complex = of_complex::equal_to,
     .fold = {fold::arithmetic, "eq"},
     .script = {comparisons::compare},
     .grown_list = grown::equals},
    {.op = "aten::ne",
     .run = test<kNe>,
     .complex = of_complex::equal_to,
     .fold = {fold::arithmetic, "ne"},
     .script = {comparisons::compare},
     .grown_list = grown::equals},
    {"aten::not_equal", test<kNe>},
    {.op = "aten::lt",
     .run = test<kLt>,
     .fold = {fold::arithmetic, "lt"},
     .script = {comparisons::compare}},
    {"aten::less", test<kLt>},
    {.op = "aten::le",
     .run = test<kLe>,
     .fold = {fold::arithmetic, "le"},
     .script = {comparisons::compare}},
    {"aten::less_equal", test<kLe>},
    {.op = "aten::gt",
     .run = test<kGt>,
     .fold = {fold::arithmetic, "gt"},
     .script = {comparisons::compare}},
    {"aten::greater", test<kGt>},
    {.op = "aten::ge",
     .run = test<kGe>,
     .fold = {fold::arithmetic, "ge"},
     .script = {comparisons::compare}},
    {"aten::greater_equal", test<kGe>},
    {"aten::logical_and", test<kAnd>},
    {"aten::logical_or", test<kOr>},
    {"aten::logical_xor", test<kXor>},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> compare() { return kTable; }

}  // namespace hg::convert::rows
