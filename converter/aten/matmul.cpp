// SPDX-License-Identifier: Apache-2.0
// Matrix products, except einsum.
#include "hg/ops/matmul.h"

#include <algorithm>
#include <cmath>

#include "converter/aten/complex.h"
#include "converter/aten/distance.h"
#include "converter/aten/pointwise.h"
#include "converter/rows/scalar.h"
#include "converter/rows/view.h"
#include "hg/op.h"
#include "hg/ops/compare.h"
#include "hg/ops/control.h"
#include "hg/ops/control_flow.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"

namespace hg::convert::rows {
namespace {

// Returns alpha or beta in the tensor's dtype; truncated for an integer tensor.
Real factor(Call& call, const Value& x, std::string_view argument) {
  const Real value = scalar(call, argument, 1);
  return value.is_known() && !is_float(x.dtype()) ? Real(std::trunc(value.known())) : value;
}

// Returns beta self + alpha product. If beta = 0, self is ignored, even NaN. The result has the
// shape of the product, to which self broadcasts. The terms are added in the dtype `inner`.
Value blend(Call& call, const Value& self, const Value& product, DType inner) {
  const Real alpha = factor(call, product, "alpha"), beta = factor(call, product, "beta");
  if (beta.is(0)) return product * alpha;
  const DType dtype = product.dtype();
  if (alpha.is(1) && beta.is(1)) inner = dtype;
  const Value y = convert::cast(product, inner) * alpha;
  const Value sum = y + convert::cast(self, inner) * beta;
  if (beta.is_known()) return convert::cast(sum, dtype);
  const Value none = eq(beta.like(y), convert::cast(call.graph().scalar(0.0, f32), inner));
  return convert::cast(where(none, y, sum), dtype);
}
Value blend(Call& call, const Value& product) {
  return blend(call, call.tensor("self"), product, math_dtype(product.dtype()));
}

void two(Call& call, std::string_view a, std::string_view b) {
  call.returns(matmul(call.tensor(a), call.tensor(b)));
}

void matmul_row(Call& call) { two(call, "self", "other"); }
void mm(Call& call) { two(call, "self", "mat2"); }
void mv(Call& call) { two(call, "self", "vec"); }
void dot(Call& call) { two(call, "self", "tensor"); }

void linear(Call& call) {
  const Value x = call.tensor("input"), weight = call.tensor("weight");
  const Value bias = call.tensor_or_none("bias");
  if (weight.rank() == 1) {  // one output, without a dim
    const Value y = matmul(x, weight);
    call.returns(bias ? call.graph().call("add", {y, bias}) : y);
    return;
  }
  if (bias && bias.rank() != 1) {
    const Value y = call.graph().call("linear", {x, weight});
    call.returns(call.graph().call("add", {y, bias}));
    return;
  }
  call.returns(call.graph().call("linear", {x, weight, bias}));
}

void addmm(Call& call) {
  call.returns(blend(call, matmul(call.tensor("mat1"), call.tensor("mat2"))));
}
void addmv(Call& call) {
  call.returns(blend(call, matmul(call.tensor("mat"), call.tensor("vec"))));
}
void baddbmm(Call& call) {
  call.returns(blend(call, matmul(call.tensor("batch1"), call.tensor("batch2"))));
}

void addmm_activation(Call& call) {
  const Value y = blend(call, matmul(call.tensor("mat1"), call.tensor("mat2")));
  if (call.flag("use_gelu", false))
    call.returns(call.graph().call("gelu", {y}, {{"approximate", "tanh"}}));
  else
    call.returns(call.graph().call("relu", {y}));
}

// The sum of the products of a batch equals a single product: [m, b k] [b k, n].
void addbmm(Call& call) {
  const Value a = call.tensor("batch1"), b = call.tensor("batch2");
  const Value left = reshaped(permute(a, {1, 0, 2}), {a.dim(1), a.dim(0) * a.dim(2)});
  const Value right = reshaped(b, {b.dim(0) * b.dim(1), b.dim(2)});
  call.returns(blend(call, matmul(left, right)));
}

Value outer_product(const Value& a, const Value& b) {
  return a.graph()->call("mul", {reshaped(a, {a.dim(0), 1}), b});
}

void outer(Call& call) {
  std::vector<Value> both = call.promoted({"self", "vec2"});
  call.returns(outer_product(both[0], both[1]));
}

void addr(Call& call) {
  std::vector<Value> all = call.promoted({"self", "vec1", "vec2"});
  const Value product = outer_product(all[1], all[2]);
  if (product.dtype() == boolean) {  // (beta and self) or (alpha and product)
    Graph& g = call.graph();
    const Value no = g.call("logical_not", {product});
    const Value none = g.call("logical_and", {product, no});
    const Value y = call.real("alpha", 1) != 0 ? product : none;
    call.returns(call.real("beta", 1) != 0 ? g.call("logical_or", {y, all[0]}) : y);
    return;
  }
  call.returns(blend(call, all[0], product, product.dtype()));
}

// Sums over the last dim of both.
void inner(Call& call) {
  const Value a = call.tensor("self"), b = call.tensor("other");
  if (a.rank() == 0 || b.rank() == 0) return call.returns(call.graph().call("mul", {a, b}));
  const Value rows =
      a.rank() == 1
          ? a
          : reshaped(a, {count(Shape(a.shape().begin(), a.shape().end() - 1)), a.dim(-1)});
  Shape lead(b.shape().begin(), b.shape().end() - 1);
  const Value columns = b.rank() == 1 ? b : permute(reshaped(b, {count(lead), b.dim(-1)}), {1, 0});
  Shape shape(a.shape().begin(), a.shape().end() - 1);
  shape.insert(shape.end(), lead.begin(), lead.end());
  call.returns(reshaped(matmul(rows, columns), shape));
}

void tensordot(Call& call) {
  const Value a = call.tensor("self"), b = call.tensor("other");
  auto axes = [&](std::string_view name, int rank) {
    std::vector<Dim> dims = call.integers(name);
    for (Dim& dim : dims) {
      if (!dim.is_constant() || dim.constant() < -rank || dim.constant() >= rank)
        call.refuse(name, "must hold dims of the tensor");
      if (dim.constant() < 0) dim = dim + rank;
    }
    return dims;
  };
  const std::vector<Dim> sum_a = axes("dims_self", a.rank()), sum_b = axes("dims_other", b.rank());
  if (sum_a.size() != sum_b.size()) call.refuse("dims_other", "must be as many as dims_self");
  std::vector<Dim> order_a, order_b = sum_b;
  Shape shape, inner_a, inner_b;
  Dim rows = 1, columns = 1;
  for (int i = 0; i < a.rank(); ++i)
    if (std::find(sum_a.begin(), sum_a.end(), Dim(i)) == sum_a.end()) {
      order_a.emplace_back(i);
      shape.push_back(a.dim(i));
      rows = rows * a.dim(i);
    }
  for (int i = 0; i < b.rank(); ++i)
    if (std::find(sum_b.begin(), sum_b.end(), Dim(i)) == sum_b.end()) {
      order_b.emplace_back(i);
      shape.push_back(b.dim(i));
      columns = columns * b.dim(i);
    }
  Value left = a, right = b;
  for (size_t i = 0; i < sum_a.size(); ++i) {
    order_a.push_back(sum_a[i]);
    // A size of 1 broadcasts, so the other side is summed first.
    const int da = static_cast<int>(sum_a[i].constant()),
              db = static_cast<int>(sum_b[i].constant());
    auto total = [&](const Value& x, int dim) {
      return call.graph().call("sum", {x}, {{"dim", std::vector<Dim>{dim}}, {"keepdim", true}});
    };
    if (a.dim(da) == Dim(1) && !(b.dim(db) == Dim(1))) right = total(right, db);
    if (b.dim(db) == Dim(1) && !(a.dim(da) == Dim(1))) left = total(left, da);
    inner_a.push_back(left.dim(da));
    inner_b.push_back(right.dim(db));
  }
  if (a.rank() > 0) left = permute(left, order_a);
  if (b.rank() > 0) right = permute(right, order_b);
  left = reshaped(left, {rows, count(inner_a)});
  right = reshaped(right, {count(inner_b), columns});
  call.returns(reshaped(matmul(left, right), shape));
}

// Multiplies left to right, except for three matrices, for which the cheaper order is chosen.
void multi_dot(Call& call) {
  std::vector<Value> all = call.tensors(call.find("matrices") ? "matrices" : "tensors");
  if (all.empty()) call.refuse("tensors", "must not be empty");
  if (all.size() == 3 && all[0].rank() == 2 && all[2].rank() == 2) {
    const Dim a = all[0].dim(0), b = all[0].dim(1), c = all[1].dim(1), d = all[2].dim(1);
    const Dim left = a * b * c + a * c * d, right = b * c * d + a * b * d;
    if (left.is_constant() && right.is_constant() && right.constant() < left.constant())
      return call.returns(matmul(all[0], matmul(all[1], all[2])));
  }
  if (all.size() > 2 && all.back().rank() == 1) {  // starts with the vector
    Value y = all.back();
    for (size_t i = all.size() - 1; i-- > 0;) y = matmul(all[i], y);
    return call.returns(y);
  }
  Value y = all[0];
  for (size_t i = 1; i < all.size(); ++i) y = matmul(y, all[i]);
  call.returns(y);
}

// y[.., o] = sum over i and j of x1[.., i] weight[o, i, j] x2[.., j]
void bilinear(Call& call) {
  const Value x1 = call.tensor("input1"), x2 = call.tensor("input2"), w = call.tensor("weight");
  const Value bias = call.tensor_or_none("bias");
  Shape lead(x1.shape().begin(), x1.shape().end() - 1);
  const Dim rows = count(lead);
  const Value left = reshaped(x1, {rows, x1.dim(-1)});
  const Value by_input = reshaped(permute(w, {1, 0, 2}), {w.dim(1), w.dim(0) * w.dim(2)});
  const Value half = reshaped(matmul(left, by_input), {rows, w.dim(0), w.dim(2)});
  Shape shape = lead;
  shape.push_back(w.dim(0));
  Value y = reshaped(matmul(half, reshaped(x2, {rows, x2.dim(-1), 1})), shape);
  if (bias) y = call.graph().call("add", {y, bias});
  call.returns(y);
}

void cdist(Call& call) {
  const Real p = scalar(call, "p", 2);
  const Value a = call.tensor("x1"), b = call.tensor("x2");
  if (p.is_known()) return call.returns(call.graph().call("cdist", {a, b}, {{"p", p.known()}}));
  if (a.rank() < 2 || b.rank() < 2) call.refuse("x1", "must have two dims or more");
  const auto apart = [](const Value& x, int from_end) {
    Shape shape = x.shape();
    shape.insert(shape.end() - from_end, Dim(1));
    return reshaped(x, shape);
  };
  call.returns(distance_of(apart(a, 1) - apart(b, 2), p, true));
}

void vecdot(Call& call) {
  const std::vector<Value> both = call.promoted({"x", "y"});
  Graph& g = call.graph();
  call.returns(g.call("sum", {g.call("mul", {both[0], both[1]})},
                      {{"dim", std::vector<Dim>{call.integer("dim", -1)}}, {"keepdim", false}}));
}

// The power of x that data decides: repeated squaring as a loop.
Value power_of_data(const Value& n, const Value& x, const Value& identity) {
  Graph& g = *x.graph();
  const Value is_negative = lt(n, g.scalar(int64_t{0}, i64));
  std::vector<Value> base = {x};
  if (x.dtype() == f32 || x.dtype() == f64)
    base = hg::cond(
        is_negative, {x, identity},
        [](Graph& body, std::span<const Value> xs) {
          return std::vector{body.call("solve", {xs[0], xs[1]})};
        },
        [](Graph&, std::span<const Value> xs) { return std::vector{xs[0]}; });
  else
    assert_true(logical_not(is_negative),
                str_cat("matrix_power: 'n' is negative for a tensor of ", x.dtype()));
  if (base.empty()) return {};  // the graph has failed
  // The first factor is not multiplied by the identity, since 0 times infinity is NaN.
  const std::vector<Value> values = while_loop(
      {n, base[0], identity, g.scalar(int64_t{1}, boolean)}, {},
      [](Graph& body, std::span<const Value> xs) {
        return std::vector{ne(xs[0], body.scalar(int64_t{0}, i64))};
      },
      [](Graph& body, std::span<const Value> xs) {
        const Value two = body.scalar(int64_t{2}, i64), zero = body.scalar(int64_t{0}, i64);
        const Value is_odd = ne(hg::fmod(xs[0], two), zero);
        const Value next = where(xs[3], xs[1], hg::matmul(xs[2], xs[1]));
        return std::vector{trunc_divide(xs[0], two), hg::matmul(xs[1], xs[1]),
                           where(is_odd, next, xs[2]), logical_and(xs[3], logical_not(is_odd))};
      });
  return values.size() == 4 ? values[2] : Value();
}

// Repeated squaring, of the inverse if n is negative. The zeroth power is the identity.
void matrix_power(Call& call) {
  const Value x = call.tensor("self");
  Graph& g = call.graph();
  if (x.rank() < 2) call.refuse("self", "must have two dims or more");
  const auto identity = [&] {
    const Value eye = g.call("eye", {}, {{"n", x.dim(-2)}, {"m", x.dim(-1)}, {"dtype", x.dtype()}});
    return g.call("expand", {eye}, {{"shape", x.shape()}});
  };
  if (call.is_of_data("n"))
    return call.returns(power_of_data(convert::cast(call.tensor("n"), i64), x, identity()));
  int64_t n = call.number("n");
  if (n == 0) return call.returns(identity());
  if (n < 0 && x.dtype() != f32 && x.dtype() != f64) call.refuse("n", "is negative");
  Value square = n < 0 ? g.call("solve", {x, identity()}) : x, y;
  n = std::abs(n);
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) y = y ? matmul(y, square) : square;
    if (n > 1) square = matmul(square, square);
  }
  call.returns(y);
}

// x_i y_k - x_k y_i, where i and k are the next two positions after the result's along dim,
// cyclically.
void cross_along(Call& call, int64_t dim, const std::vector<Value>& v) {
  Graph& g = call.graph();
  const auto rolled = [&](const Value& x, int by) {
    return g.call("roll", {x}, {{"shifts", Shape{-by}}, {"dims", Shape{dim}}});
  };
  call.returns(g.call("sub", {g.call("mul", {rolled(v[0], 1), rolled(v[1], 2)}),
                              g.call("mul", {rolled(v[0], 2), rolled(v[1], 1)})}));
}
// torch.cross without dim uses the first dim of size 3; linalg.cross uses the last dim.
void cross(Call& call) {
  std::vector<Value> v = call.promoted({"self", "other"});
  const Result<Shape> shape = broadcast(v[0].shape(), v[1].shape());
  if (!shape.ok()) call.refuse("other", shape.status().message());
  for (Value& x : v)
    if (x.shape() != *shape) x = call.graph().call("expand", {x}, {{"shape", *shape}});
  const int rank = static_cast<int>(shape->size());
  int64_t dim = call.kind() == "aten::cross" ? -rank - 1 : -1;
  if (call.has("dim")) dim = call.number("dim");
  for (int d = 0; dim < -rank && d < rank; ++d)
    if ((*shape)[d] == Dim(3)) dim = d;
  if (dim < 0) dim += rank;
  if (dim < 0 || dim >= rank || !((*shape)[dim] == Dim(3)))
    call.refuse("dim", str_cat("must name a dim of size 3 of ", *shape));
  cross_along(call, dim, v);
}

// Multiplies each element of self by all of other.
void kron(Call& call) {
  Graph& g = call.graph();
  const std::vector<Value> v = call.promoted({"self", "other"});
  const int rank = std::max(v[0].rank(), v[1].rank());
  Shape apart[2], joined;
  for (int d = 0; d < rank; ++d) {
    Dim sizes[2];
    for (int i = 0; i < 2; ++i) {
      const int own = d - (rank - v[i].rank());
      sizes[i] = own < 0 ? Dim(1) : v[i].dim(own);
    }
    for (const Dim& size : {sizes[0], Dim(1)}) apart[0].push_back(size);
    for (const Dim& size : {Dim(1), sizes[1]}) apart[1].push_back(size);
    joined.push_back(sizes[0] * sizes[1]);
  }
  const Value y = g.call("mul", {g.call("reshape", {v[0]}, {{"shape", apart[0]}}),
                                 g.call("reshape", {v[1]}, {{"shape", apart[1]}})});
  call.returns(g.call("reshape", {y}, {{"shape", joined}}));
}

constexpr SharedTraits kShared = {.layout = ResultLayout::kept};
constexpr Row kRows[] = {
    {.op = "aten::cross", .run = cross, .layout = ResultLayout::row_major},
    {.op = "aten::linalg_cross", .run = cross, .layout = ResultLayout::row_major},
    {"aten::kron", kron, OnComplex::product},
    {"aten::matmul", matmul_row, OnComplex::product, ResultLayout::row_major},
    {"aten::linalg_matmul", matmul_row, OnComplex::product, ResultLayout::row_major},
    {"aten::__rmatmul__", matmul_row},
    {"aten::mm", mm, OnComplex::product, ResultLayout::row_major},
    {"aten::bmm", mm, OnComplex::product, ResultLayout::row_major},
    {"aten::mv", mv, OnComplex::product, ResultLayout::row_major},
    {"aten::dot", dot, OnComplex::product},
    {"aten::vdot", matmul_row, of_complex::vdot},
    {"aten::linear", linear, of_complex::linear, ResultLayout::row_major},
    {"aten::addmm", addmm, of_complex::addmm, ResultLayout::row_major},
    {"aten::_addmm_activation", addmm_activation},
    {"aten::addmv", addmv},
    {"aten::baddbmm", baddbmm, of_complex::baddbmm, ResultLayout::row_major},
    {"aten::addbmm", addbmm},
    {"aten::outer", outer, OnComplex::product},
    {"aten::ger", outer, OnComplex::product},
    {"aten::addr", addr},
    {"aten::inner", inner, OnComplex::product},
    {"aten::tensordot", tensordot, OnComplex::product},
    {"aten::chain_matmul", multi_dot, OnComplex::product},
    {"aten::linalg_multi_dot", multi_dot, OnComplex::product},
    {"aten::bilinear", bilinear},
    {.op = "aten::cdist", .run = cdist, .layout = ResultLayout::row_major},
    {"aten::_cdist_forward", cdist},
    {"aten::linalg_vecdot", vecdot},
    {"aten::matrix_power", matrix_power},
    {"aten::linalg_matrix_power", matrix_power},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> matmul() { return kTable; }

}  // namespace hg::convert::rows
