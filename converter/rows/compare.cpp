// SPDX-License-Identifier: Apache-2.0
// Comparisons and logic: both arguments in their common dtype, the result bool.
#include "converter/rows/complex.h"
#include "converter/rows/pointwise.h"

namespace hg::convert::rows {
namespace {

template <const char* op>
void test(Call& call) {
  call.returns(call.graph().call(op, call.promoted({"self", "other"})));
}
constexpr char kEq[] = "eq", kNe[] = "ne", kLt[] = "lt", kLe[] = "le", kGt[] = "gt", kGe[] = "ge";
constexpr char kAnd[] = "logical_and", kOr[] = "logical_or", kXor[] = "logical_xor";

constexpr SharedTraits kShared = {.layout = ResultLayout::kept};
constexpr Row kRows[] = {
    {"aten::eq", test<kEq>, of_complex::equal_to},
    {"aten::ne", test<kNe>, of_complex::equal_to},
    {"aten::not_equal", test<kNe>},
    {"aten::lt", test<kLt>},
    {"aten::less", test<kLt>},
    {"aten::le", test<kLe>},
    {"aten::less_equal", test<kLe>},
    {"aten::gt", test<kGt>},
    {"aten::greater", test<kGt>},
    {"aten::ge", test<kGe>},
    {"aten::greater_equal", test<kGe>},
    {"aten::logical_and", test<kAnd>},
    {"aten::logical_or", test<kOr>},
    {"aten::logical_xor", test<kXor>},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> compare() { return kTable; }

}  // namespace hg::convert::rows
