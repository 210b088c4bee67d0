// SPDX-License-Identifier: Apache-2.0
// Converts between ONNX tensors and the numbers that prim::If and prim::Loop use.
#include "converter/onnx/node.h"

namespace hg::convert::onnx {
namespace {

// Converts a tensor of one element to a condition or a count.
bool number(NodeCall& call) {
  const Node n(call);
  const Item& given = n.item(0);
  if (!given.is_tensor()) {
    call.give(given);
    return true;
  }
  if (const auto known = n.known(0); known && known->elements.size() == 1) {
    call.give(hg::convert::item_of(call.memory(), known->elements[0]));
    return true;
  }
  const Value value = n.in(0);
  if (!(count(value.shape()) == Dim(1)))
    n.refuse(str_cat("a condition or a count is ", value.shape(), ", not one element"));
  const DType dtype = value.dtype() == boolean ? boolean : i64;
  call.give(Item(call.memory().make_number(cast(reshape(value, {}), dtype))));
  return true;
}

bool tensor(NodeCall& call) {
  const Node n(call);
  const Item& given = n.item(0);
  if (const auto scalar = scalar_of(given)) {
    const DType dtype = scalar->kind == Scalar::Kind::boolean ? boolean : i64;
    call.give(Item(call.memory().make_known(Known{dtype, 0, {*scalar}})));
  } else {
    const Value value = n.in(0);
    call.give(n.item_of(value.dtype() == boolean ? value : cast(value, i64)));
  }
  return true;
}

constexpr Builtin kRows[] = {
    {"onnx.control::number", number},
    {"onnx.control::tensor", tensor},
};

}  // namespace

Rows control_rows() { return kRows; }

}  // namespace hg::convert::onnx
