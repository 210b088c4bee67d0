// SPDX-License-Identifier: Apache-2.0
// Matrix products.
#include "converter/onnx/contrib.h"

namespace hg::convert::onnx {
namespace {

// Products of integers are exact in f64 up to 2^53.
Value product(const Value& a, const Value& b) {
  if (is_float(a.dtype())) return matmul(a, b);
  return cast(matmul(cast(a, f64), cast(b, f64)), a.dtype());
}

}  // namespace

Value gemm_of(Node& n) {
  Value a = n.in(0), b = n.in(1);
  Value c = n.in_or_none(2);
  const double alpha = n.real("alpha", 1.0), beta = n.real("beta", 1.0);
  if (n.flag("transA")) a = permute(a, {1, 0});
  const bool transposed = n.flag("transB");
  if (transposed && alpha == 1 && beta == 1 && is_float(a.dtype()) &&
      (!c || (c.rank() == 1 && c.dim(0) == b.dim(0))))
    return linear(a, b, c);
  if (transposed) b = permute(b, {1, 0});
  Value y = product(a, b);
  if (alpha != 1) y = y * constant_like(y, alpha);
  if (c) y = y + (beta == 1 ? c : c * constant_like(c, beta));
  return y;
}

namespace {

void mat_mul(Node& n) { n.give(product(n.in(0), n.in(1))); }
void gemm(Node& n) { n.give(gemm_of(n)); }

void einsum(Node& n) {
  auto operands = std::make_shared<List>();
  for (int i = 0; i < n.input_count(); ++i) operands->items.push_back(n.item_of(n.in(i)));
  n.give(n.aten_value("aten::einsum",
                      {{"equation", Item(n.string("equation"))}, {"tensors", Item(operands)}}));
}

void determinant(Node& n) { n.give(det(n.in(0))); }

constexpr Builtin kRows[] = {
    {"onnx::MatMul", row<mat_mul>},
    {"onnx::Gemm", row<gemm>},
    {"onnx::Einsum", row<einsum>},
    {"onnx::Det", row<determinant>},
};

}  // namespace

Rows matmul_rows() { return kRows; }

}  // namespace hg::convert::onnx
