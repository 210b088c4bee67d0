// SPDX-License-Identifier: Apache-2.0
// Matrix products: matmul with torch's broadcasting, linear with a fused epilogue, cdist.
#include "hg/op.h"
#include "lib/graph/internal_op.h"
#include "lib/ops/fused.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

// x as a matrix of rows: [..., last] -> [rows, last]
Value rows_of(const Value& x) {
  Shape lead(x.shape().begin(), x.shape().end() - 1);
  return term::reshape(x, {count(lead), x.dim(-1)});
}

// a: [..., m, k] or [k], b: [..., k, n] or [k] -> [..., m, n] without the missing dims
Status matmul_infer(InferContext& c) {
  const TensorType& a = c.in(0);
  const TensorType& b = c.in(1);
  if (a.dtype != b.dtype) return c.fail("a is ", a.dtype, ", b is ", b.dtype);
  if (a.dtype == boolean) return c.fail("products of bool tensors are not defined");
  if (a.rank() < 1 || b.rank() < 1)
    return c.fail("both tensors need at least one dim: a is ", a.shape, ", b is ", b.shape);
  const Dim& inner_a = a.shape.back();
  const Dim& inner_b = b.rank() == 1 ? b.shape[0] : b.shape[b.shape.size() - 2];
  if (!c.require_equal(inner_a, inner_b))
    return c.fail("inner sizes differ: a is ", a.shape, ", b is ", b.shape);
  const Shape lead_a(a.shape.begin(), a.shape.end() - (a.rank() > 1 ? 2 : 1));
  const Shape lead_b(b.shape.begin(), b.shape.end() - (b.rank() > 1 ? 2 : 1));
  Result<Shape> lead = broadcast(lead_a, lead_b);
  if (!lead.ok()) return c.fail("batch sizes do not broadcast: a is ", a.shape, ", b is ", b.shape);
  Shape shape = *std::move(lead);
  if (a.rank() > 1) shape.push_back(a.shape[a.shape.size() - 2]);
  if (b.rank() > 1) shape.push_back(b.shape.back());
  c.out(0) = {a.dtype, std::move(shape)};
  return {};
}

// y = a b: da = dy b^T, db = a^T dy; set_grad sums over dims that broadcasting added.
Status matmul_grad(GradContext& c) {
  Graph& g = c.graph();
  const Value a = c.in(0), b = c.in(1), dy = c.dout(0);
  if (a.rank() == 1 && b.rank() == 1) {
    if (c.needs(0)) c.set_grad(0, g.call("mul", {dy, b}));
    if (c.needs(1)) c.set_grad(1, g.call("mul", {dy, a}));
    return {};
  }
  if (b.rank() == 1) {  // dy: [..., m]
    if (c.needs(0)) {
      Shape column = dy.shape();
      column.emplace_back(1);
      c.set_grad(0, g.call("mul", {term::reshape(dy, column), b}));
    }
    if (c.needs(1))
      c.set_grad(1, g.call("matmul", {term::reshape(dy, {count(dy.shape())}), rows_of(a)}));
    return {};
  }
  if (a.rank() == 1) {  // dy: [..., n], b: [..., k, n]
    Shape row = dy.shape();
    row.insert(row.end() - 1, Dim(1));
    Shape column = dy.shape();
    column.emplace_back(1);
    if (c.needs(0)) {
      const Value da = g.call("matmul", {b, term::reshape(dy, column)});  // [..., k, 1]
      Shape shape(da.shape().begin(), da.shape().end() - 1);
      c.set_grad(0, term::reshape(da, shape));
    }
    if (c.needs(1))
      c.set_grad(1, g.call("mul", {term::reshape(a, {a.dim(0), 1}), term::reshape(dy, row)}));
    return {};
  }
  if (c.needs(0)) c.set_grad(0, g.call("matmul", {dy, term::transpose_last(b)}));
  if (c.needs(1)) {
    if (b.rank() == 2)  // one product over all rows of a
      c.set_grad(1, g.call("matmul", {term::transpose_last(rows_of(a)), rows_of(dy)}));
    else
      c.set_grad(1, g.call("matmul", {term::transpose_last(a), dy}));
  }
  return {};
}

// x: [..., in], weight: [out, in], bias: [out], residual: [..., out]
Status infer_linear(InferContext& c, DType weight_dtype) {
  HG_TRY(check_activation(c));
  const TensorType& x = c.in(0);
  const TensorType& weight = c.in(1);
  if (x.rank() < 1 || weight.rank() != 2)
    return c.fail("x must be [..., in] and weight [out, in]: x is ", x.shape, ", weight is ",
                  weight.shape);
  if (!c.require_equal(x.shape.back(), weight.shape[1]))
    return c.fail("inner sizes differ: x is ", x.shape, ", weight is ", weight.shape);
  Shape shape = x.shape;
  shape.back() = weight.shape[0];
  for (int i = 1; i < c.input_count(); ++i)
    if (c.has(i) && c.in(i).dtype != (i == 1 ? weight_dtype : x.dtype))
      return c.fail("x is ", x.dtype, ", input ", i, " is ", c.in(i).dtype);
  HG_TRY(check_added(c, weight.shape[0], shape));
  c.out(0) = {x.dtype, std::move(shape)};
  return {};
}

Status linear_infer(InferContext& c) {
  const DType x = c.in(0).dtype;
  if (x == boolean) return c.fail("products of bool tensors are not defined");
  return infer_linear(c, x);
}

Status mixed_linear_infer(InferContext& c) {
  const DType x = c.in(0).dtype, weight = c.in(1).dtype;
  if (x != f32 || (weight != f16 && weight != bf16))
    return c.fail("x is ", x, ", weight is ", weight, "; x must be f32, weight f16 or bf16");
  return infer_linear(c, weight);
}

// dx = dy weight, dweight = dy^T x, dbias = sum of dy over rows. The expansion supplies the
// gradient of an activation.
Status linear_grad(GradContext& c) {
  if (activation_attr(c.attrs()) != Activation::none) return {};
  Graph& g = c.graph();
  const Value x = c.in(0), weight = c.in(1), dy = c.dout(0);
  const Value rows = rows_of(dy);
  if (c.needs(0)) c.set_grad(0, g.call("matmul", {dy, weight}));
  if (c.needs(1)) c.set_grad(1, g.call("matmul", {term::transpose_last(rows), rows_of(x)}));
  if (c.has(2) && c.needs(2))
    c.set_grad(2, g.call("sum", {rows}, {{"dim", std::vector<Dim>{0}}, {"keepdim", false}}));
  if (c.input_count() > 3 && c.has(3) && c.needs(3)) c.set_grad(3, dy);
  return {};
}

Status linear_expand(ExpandContext& c) {
  Graph& g = c.graph();
  const Value bias = input_or_none(c, 2), residual = input_or_none(c, 3);
  const Activation activation = activation_attr(c.attrs());
  if (activation != Activation::none) {
    const Value u = g.call("linear", {c.in(0), c.in(1), bias, residual});
    c.set_out(0, apply_activation(u, activation));
    return {};
  }
  Value y = g.call("matmul", {c.in(0), term::transpose_last(c.in(1))});
  if (bias) y = g.call("add", {y, bias});
  if (residual) y = g.call("add", {y, residual});
  c.set_out(0, y);
  return {};
}

Status mixed_linear_expand(ExpandContext& c) {
  c.set_out(0,
            c.graph().call("linear",
                           {c.in(0), cast(c.in(1), f32), input_or_none(c, 2), input_or_none(c, 3)},
                           {{"activation", c.attrs().string("activation")}}));
  return {};
}

// a: [..., p, m], b: [..., r, m] -> [..., p, r]: the p-norm of the difference of each pair of rows
Status cdist_infer(InferContext& c) {
  const TensorType& a = c.in(0);
  const TensorType& b = c.in(1);
  if (a.dtype != b.dtype || !is_float(a.dtype))
    return c.fail("both tensors must have one float dtype, but are ", a.dtype, " and ", b.dtype);
  if (a.rank() < 2 || b.rank() < 2)
    return c.fail("both tensors need two dims or more: a is ", a.shape, ", b is ", b.shape);
  if (!c.require_equal(a.shape.back(), b.shape.back()))
    return c.fail("columns differ: a is ", a.shape, ", b is ", b.shape);
  if (!(c.attrs().real("p") >= 0)) return c.fail("p is ", c.attrs().real("p"), ", not >= 0");
  Result<Shape> lead = broadcast(Shape(a.shape.begin(), a.shape.end() - 2),
                                 Shape(b.shape.begin(), b.shape.end() - 2));
  if (!lead.ok()) return c.fail("batch sizes do not broadcast: a is ", a.shape, ", b is ", b.shape);
  Shape shape = *std::move(lead);
  shape.push_back(a.shape[a.shape.size() - 2]);
  shape.push_back(b.shape[b.shape.size() - 2]);
  c.out(0) = {a.dtype, std::move(shape)};
  return {};
}

// With d = a_i - b_j, y = |d|_p: dy/dd = sign(d) |d|^(p-1) y^(1-p), 0 where y is 0.
// p = 0: 0. p = inf: sign(d) where |d| = y.
Status cdist_grad(GradContext& c) {
  Graph& g = c.graph();
  const double p = c.attrs().real("p");
  auto with_one = [&](const Value& x, int from_end) {
    Shape shape = x.shape();
    shape.insert(shape.end() - from_end, Dim(1));
    return term::reshape(x, shape);
  };
  const Value a = c.in(0), b = c.in(1);
  const Value d = g.call("sub", {with_one(a, 1), with_one(b, 2)});  // [..., p, r, m]
  const Value y = with_one(c.out(0), 0), dy = with_one(c.dout(0), 0);
  const Value zero = number_like(a, 0), one = number_like(a, 1);
  const Value at_zero = g.call("eq", {y, zero});
  const Value safe = g.call("where", {at_zero, one, y});
  Value slope;
  if (p == 0) {
    slope = g.call("mul", {d, zero});
  } else if (p == 1) {
    slope = g.call("sign", {d});
  } else if (p == 2) {
    slope = g.call("div", {d, safe});
  } else if (p > 1e300) {
    slope = g.call("where", {g.call("eq", {g.call("abs", {d}), y}), g.call("sign", {d}), zero});
  } else {
    // A difference of 0 has slope 0, also for p < 1, where the power alone is infinite.
    const Value zero_d = g.call("eq", {d, zero});
    const Value ratio = g.call("div", {g.call("where", {zero_d, one, g.call("abs", {d})}), safe});
    const Value power = g.call("pow", {ratio, number_like(a, p - 1)});
    slope = g.call("mul", {g.call("sign", {d}), power});
  }
  const Value grad = g.call("mul", {dy, g.call("where", {at_zero, zero, slope})});
  auto summed = [&](int dim) {
    return g.call("sum", {grad}, {{"dim", std::vector<Dim>{dim}}, {"keepdim", false}});
  };
  if (c.needs(0)) c.set_grad(0, summed(-2));
  if (c.needs(1)) c.set_grad(1, g.call("neg", {summed(-3)}));
  return {};
}

double matmul_flops(std::span<const Sizes> in, std::span<const Sizes> out, const AttrReader&) {
  return 2.0 * static_cast<double>(out[0].count()) * static_cast<double>(in[0].back());
}

double cdist_flops(std::span<const Sizes> in, std::span<const Sizes> out, const AttrReader&) {
  return 3.0 * static_cast<double>(out[0].count()) * static_cast<double>(in[0].back());
}

constexpr OpDef kOps[] = {
    // a: [..., m, k] or [k], b: [..., k, n] or [k] -> [..., m, n]. Batch dims broadcast. The dim
    // that a vector lacks is also absent from the result. Any dtype but bool.
    {.signature = "matmul(a, b) -> y",
     .infer = matmul_infer,
     .grad = matmul_grad,
     .traits = kProduct,
     .flops = matmul_flops},
    // activation(x weight^T + bias + residual). x: [..., in], weight: [out, in], bias: [out],
    // residual: [..., out].
    {.signature = "linear(x, weight, bias?, residual?, activation: str = \"none\") -> y",
     .infer = linear_infer,
     .grad = linear_grad,
     .expand = linear_expand,
     .traits = kProduct,
     .flops = matmul_flops},
    // linear in f32 whose weight is kept in f16 or bf16.
    {.signature = "mixed_linear(x, weight, bias?, residual?, activation: str = \"none\") -> y",
     .infer = mixed_linear_infer,
     .expand = mixed_linear_expand,
     .traits = kProduct | kInternal,
     .flops = matmul_flops},
    // p-norms of the differences of all pairs of rows: a: [..., p, m], b: [..., r, m] -> [..., p,
    // r].
    {.signature = "cdist(a, b, p: float = 2) -> y",
     .infer = cdist_infer,
     .grad = cdist_grad,
     .flops = cdist_flops},
};

}  // namespace

std::span<const OpDef> matmul() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
