// SPDX-License-Identifier: Apache-2.0
// Products over groups of rows, for mixture-of-experts layers.
#include "converter/aten/matrices.h"

namespace hg::convert::rows {
namespace {

// Ranks 2 and 3: groups of rows; 2 and 2: groups of the inner dim; 3 and 2: groups of columns; 3
// and 3: one product per batch element, without groups.
void grouped_mm(Call& call) {
  const Value a = call.tensor("self"), b = call.tensor("mat2");
  const Value given = call.tensor_or_none("offs");
  Value y;
  if (a.rank() == 3 && b.rank() == 3) {
    if (given) call.refuse("offs", "goes with a matrix of 2 dims only");
    y = call.graph().call("matmul", {a, b});
  } else if (!given) {
    call.refuse("offs", "is missing");
  } else {
    const Value ends = convert::cast(given, i64);
    // y^T = b^T a^T, which turns columns of b into rows.
    y = a.rank() == 3
            ? transposed(call.graph().call("grouped_mm", {transposed(b), transposed(a), ends}))
            : call.graph().call("grouped_mm", {a, b, ends});
  }
  if (call.has("bias")) call.refuse("bias", "is not supported");
  call.returns(convert::cast(y, call.dtype("out_dtype", y.dtype())));
}

// Op for experts in programs that transformers exports in f32: groups of rows.
void grouped_mm_fallback(Call& call) {
  const Value ends = convert::cast(call.tensor("offs"), i64);
  call.returns(
      call.graph().call("grouped_mm", {call.tensor("input"), call.tensor("weight"), ends}));
}

constexpr Row kRows[] = {
    {"aten::_grouped_mm", grouped_mm},
    {"transformers::grouped_mm_fallback", grouped_mm_fallback},
};

}  // namespace

std::span<const Row> grouped_mm() { return kRows; }

}  // namespace hg::convert::rows
