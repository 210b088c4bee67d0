// SPDX-License-Identifier: Apache-2.0
// Reductions over any dims.
#include "hg/ops/reduce.h"

#include <cmath>

#include "converter/containers/container_ops.h"
#include "converter/rows/node_call.h"
#include "converter/rows/scalar.h"
#include "converter/rows/view.h"
#include "converter/script/fold.h"
#include "converter/script/script_ops.h"
#include "hg/op.h"
#include "hg/ops/compare.h"
#include "hg/ops/linalg.h"
#include "hg/ops/movement.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/unary.h"

namespace hg::convert::rows {
namespace {

Dims dims_of(Call& call) { return call.integers("dim"); }
bool keepdim(Call& call) { return call.flag("keepdim", false); }

// Returns `self` in the requested dtype.
Value typed_self(Call& call) {
  const Value x = call.tensor("self");
  return convert::cast(x, call.dtype("dtype", x.dtype()));
}
Value typed_float_self(Call& call) {
  const Value x = typed_self(call);
  if (!is_float(x.dtype())) call.refuse("self", "must be a float tensor");
  return x;
}

// torch sums integers in i64 unless a dtype is given.
void sum_of(Call& call) {
  const Value x = typed_self(call);
  const Value y = hg::sum(x, dims_of(call), keepdim(call));
  call.returns(call.has("dtype") ? convert::cast(y, x.dtype()) : y);
}
void nansum(Call& call) {
  Value x = typed_self(call);
  if (is_float(x.dtype())) x = where(isnan(x), number_like(x, 0), x);
  const Value y = hg::sum(x, dims_of(call), keepdim(call));
  call.returns(call.has("dtype") ? convert::cast(y, x.dtype()) : y);
}
void prod_of(Call& call) {
  const Value x = typed_self(call);
  const Value y = hg::prod(x, dims_of(call), keepdim(call));
  call.returns(call.has("dtype") ? convert::cast(y, x.dtype()) : y);
}
void mean_of(Call& call) {
  call.returns(hg::mean(typed_float_self(call), dims_of(call), keepdim(call)));
}
// Sum of the numbers that are not NaN, divided by their count.
void nanmean(Call& call) {
  const Value x = typed_float_self(call);
  const Value missing = isnan(x);
  const Value total = hg::sum(where(missing, number_like(x, 0), x), dims_of(call), keepdim(call));
  const Value present =
      hg::sum(convert::cast(logical_not(missing), x.dtype()), dims_of(call), keepdim(call));
  call.returns(total / present);
}

// An empty tensor has no extreme value: PyTorch raises, even if the result is unused.
void need_elements(Call& call) {
  const Value x = call.tensor("self");
  for (const int axis : axes_of(call, "dim", x.rank()))
    if (x.rank() > 0)
      call.graph().guard(x.dim(axis), Relation::ne, 0, std::string(call.kind().substr(6)));
}

void amax_of(Call& call) {
  need_elements(call);
  call.returns(hg::amax(call.tensor("self"), dims_of(call), keepdim(call)));
}
void amin_of(Call& call) {
  need_elements(call);
  call.returns(hg::amin(call.tensor("self"), dims_of(call), keepdim(call)));
}
// For a scalar, keepdim adds a dim in libtorch 1, and none in later versions.
bool adds_dim(Call& call, const Value& x) {
  const auto* node = dynamic_cast<const NodeCall*>(&call);
  return x.rank() == 0 && call.has("dim") && keepdim(call) && node != nullptr &&
         node->environment().program().libtorch_version.starts_with("1.");
}
void aminmax(Call& call) {
  need_elements(call);
  Value x = call.tensor("self");
  if (adds_dim(call, x)) x = reshaped(x, {1});
  call.returns(std::vector<Value>{hg::amin(x, dims_of(call), keepdim(call)),
                                  hg::amax(x, dims_of(call), keepdim(call))});
}
void extreme_dim(Call& call, std::string_view op) {
  need_elements(call);
  call.returns(call.graph().calls(op, {call.tensor("self")},
                                  {{"dim", call.integer("dim")}, {"keepdim", keepdim(call)}}));
}
void max_dim(Call& call) { extreme_dim(call, "max"); }
void min_dim(Call& call) { extreme_dim(call, "min"); }

void extreme_index(Call& call, std::string_view op) {
  need_elements(call);
  NamedAttrs attrs = {{"keepdim", keepdim(call)}};
  if (call.has("dim")) attrs.push_back({"dim", call.integer("dim")});
  call.returns(call.graph().call(op, {call.tensor("self")}, attrs));
}
void argmax_of(Call& call) { extreme_index(call, "argmax"); }
void argmin_of(Call& call) { extreme_index(call, "argmin"); }

// The result for u8 is u8. An explicitly empty list of dims reduces nothing.
void test(Call& call, std::string_view op) {
  const Value x = call.tensor("self");
  const Dims dims = dims_of(call);
  const bool nothing = call.has("dim") && dims.empty();
  const Value y = nothing ? convert::cast(x, boolean)
                          : call.graph().call(op, {x}, {{"dim", dims}, {"keepdim", keepdim(call)}});
  call.returns(convert::cast(y, x.dtype() == u8 ? u8 : boolean));
}
void all_of(Call& call) { test(call, "all"); }
void any_of(Call& call) { test(call, "any"); }

Real correction(Call& call) {
  if (call.has("unbiased")) return call.flag("unbiased") ? 1 : 0;
  return scalar(call, "correction", 1);
}
// Mean of the squared deviations times n / max(n - correction, 0).
Value variance_by(const Value& x, const Dims& dims, const Real& correction, bool keepdim) {
  const Value ones = expanded(number_like(x, 1), x.shape());
  const Value n = hg::sum(ones, dims, keepdim);
  const Value freedom = maximum(n - correction, number_like(x, 0));
  const Value off = x - hg::mean(x, dims, true);
  return hg::sum(off * off, dims, keepdim) / freedom;
}
void variance(Call& call, bool root, bool with_mean) {
  const Value x = call.tensor("self");
  if (!is_float(x.dtype())) call.refuse("self", "must be a float tensor");
  const Real less = correction(call);
  Value y;
  if (less.is_known()) {
    y = call.graph().call(
        root ? "std" : "var", {x},
        {{"dim", dims_of(call)}, {"correction", less.known()}, {"keepdim", keepdim(call)}});
  } else {
    const DType inner = x.dtype() == f64 ? f64 : f32;
    y = variance_by(convert::cast(x, inner), dims_of(call), less, keepdim(call));
    y = convert::cast(root ? sqrt(y) : y, x.dtype());
  }
  if (!with_mean) return call.returns(y);
  call.returns(std::vector<Value>{y, hg::mean(x, dims_of(call), keepdim(call))});
}
void var_of(Call& call) { variance(call, false, false); }
void std_of(Call& call) { variance(call, true, false); }
void var_mean(Call& call) { variance(call, false, true); }
void std_mean(Call& call) { variance(call, true, true); }

void logsumexp_of(Call& call) {
  Value x = call.promoted({"self"}, true)[0];
  // Adds an element of -inf, which does not change the result, for dims that may be empty.
  for (const int axis : axes_of(call, "dim", x.rank()))
    if (x.rank() > 0 && !x.dim(axis).is_constant() && x.dim(axis).lower_bound() < 1) {
      Dims pads(2 * static_cast<size_t>(x.rank()), Dim(0));
      pads[2 * static_cast<size_t>(axis) + 1] = 1;
      x = x.graph()->call("pad", {x}, {{"pads", pads}, {"value", -HUGE_VAL}});
    }
  call.returns(hg::logsumexp(x, dims_of(call), keepdim(call)));
}
void count_nonzero(Call& call) {
  const Value x = call.tensor("self");
  call.returns(
      hg::sum(ne(x, convert::cast(call.graph().scalar(0.0, f32), x.dtype())), dims_of(call)));
}

// Returns the order of a norm as a number, also from text such as "inf".
Real order_of(Call& call, std::string_view argument, double fallback) {
  const Item* item = call.find(argument);
  if (item != nullptr && item->is_string()) {
    const std::string text = call.string(argument);
    if (text == "inf") return HUGE_VAL;
    if (text == "-inf") return -HUGE_VAL;
    call.refuse(argument, "must be a number here");
  }
  return scalar(call, argument, fallback);
}
void check_norm_dims(Call& call, const Value& x, const Real& order) {
  if (order.is_known() && order.known() >= 0 && !std::isinf(order.known())) return;
  for (const int axis : axes_of(call, "dim", x.rank()))
    if (x.rank() > 0 && x.dim(axis) == Dim(0))
      call.refuse("self", "is empty, this norm of nothing is not defined");
  need_elements(call);
}
void vector_norm_of(Call& call, const Real& order) {
  const Value x = typed_float_self(call);
  check_norm_dims(call, x, order);
  call.returns(call_with(call.graph(), "norm", {x}, {{"ord", order}},
                         {{"dim", dims_of(call)}, {"keepdim", keepdim(call)}}));
}
void norm_of(Call& call) { vector_norm_of(call, order_of(call, "p", 2)); }
void vector_norm(Call& call) { vector_norm_of(call, order_of(call, "ord", 2)); }
void frobenius_norm(Call& call) { vector_norm_of(call, 2); }

int64_t from_front(const Value& x, const Dim& dim) {
  return dim.constant() < 0 ? dim.constant() + x.rank() : dim.constant();
}

// Returns amax, amin or sum of the singular values.
Value singular_norm(Call& call, const Value& x, const Dims& dims, std::string_view reduction) {
  if (x.dtype() != f32 && x.dtype() != f64)
    call.refuse("ord", str_cat("needs singular values, which ", x.dtype(), " has not"));
  const int64_t rows = from_front(x, dims[0]), columns = from_front(x, dims[1]);
  Dims order;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != rows && d != columns) order.emplace_back(d);
  order.emplace_back(rows);
  order.emplace_back(columns);
  const Value s = hg::svd(hg::permute(x, std::move(order)))[1];
  const Value y = x.graph()->call(reduction, {s}, {{"dim", Dims{-1}}});
  if (!keepdim(call)) return y;
  Shape shape = x.shape();
  shape[rows] = shape[columns] = 1;
  return hg::reshape(y, std::move(shape));
}
// Returns the largest or smallest row sum, column sum or singular value.
Value matrix_norm_value(Call& call, const Value& x, Dims dims, double order) {
  const bool columns = std::abs(order) == 1;
  if (std::abs(order) == 2) return singular_norm(call, x, dims, order > 0 ? "amax" : "amin");
  if (!columns && !std::isinf(order))
    call.refuse("ord", str_cat("is ", order, ", which is no norm of a matrix"));
  const int64_t inner = from_front(x, columns ? dims[0] : dims[1]);
  int64_t outer = from_front(x, columns ? dims[1] : dims[0]);
  const bool keep = keepdim(call);
  const Value sums = hg::sum(abs(x), {inner}, keep);
  if (!keep && outer > inner) --outer;
  return order > 0 ? hg::amax(sums, {outer}, keep) : hg::amin(sums, {outer}, keep);
}
void matrix_norm(Call& call) {
  const Value x = typed_float_self(call);
  Dims dims = dims_of(call);
  if (dims.empty()) dims = {-2, -1};
  const Item* ord = call.find("ord");
  if (ord == nullptr || ord->is_none() || ord->is_string()) {
    const std::string name = call.string("ord", "fro");
    if (name == "nuc") return call.returns(singular_norm(call, x, dims, "sum"));
    if (name != "fro") call.refuse("ord", "must be a number, 'fro' or 'nuc'");
    return call.returns(hg::norm(x, 2, dims, keepdim(call)));
  }
  call.returns(matrix_norm_value(call, x, dims, call.real("ord")));
}
// linalg.norm: a matrix norm for two dims or a matrix, a vector norm for one dim or a vector.
void linalg_norm(Call& call) {
  const Value x = typed_float_self(call);
  const Dims dims = dims_of(call);
  if (!call.has("ord")) return call.returns(hg::norm(x, 2, dims, keepdim(call)));
  const size_t rank = dims.empty() ? static_cast<size_t>(x.rank()) : dims.size();
  if (rank == 2) return matrix_norm(call);
  if (rank != 1) call.refuse("dim", "must name one or two dims with this order");
  vector_norm(call);
}
void dist(Call& call) {
  const std::vector<Value> v = call.promoted({"self", "other"}, true);
  call.returns(call_with(call.graph(), "norm", {v[0] - v[1]}, {{"ord", order_of(call, "p", 2)}}));
}

// Sums dims in which `size` is 1 or which it does not have.
void sum_to_size(Call& call) {
  const Value x = call.tensor("self");
  const Shape to = call.sizes("size");
  const size_t more = x.shape().size() - to.size();
  if (to.size() > x.shape().size()) call.refuse("size", "has more dims than the tensor");
  std::vector<Dim> dims;
  Shape open;  // a dim whose result is 1 or its size, as data or sizes decide, becomes two
  bool is_open = false;
  for (size_t d = 0; d < x.shape().size(); ++d) {
    const Dim size = x.shape()[d], result = d < more ? Dim(1) : to[d - more];
    const Scalar keeps = either(equal(result, size), equal(result, 1));
    if (!keeps.is_constant())
      guard(call.graph(), keeps, "sum_to_size");
    else if (keeps.as_double() == 0)
      call.refuse("size", str_cat("has ", result, " for a dim of size ", size));
    open.push_back(result);
    if (result == size) continue;
    is_open = is_open || !(result == Dim(1));
    dims.emplace_back(static_cast<int64_t>(open.size()));
    open.push_back(result == Dim(1) ? size : floordiv(size, max(result, 1)));
  }
  if (dims.empty() && !to.empty()) return give_view(call, reshape_view(to));  // the tensor itself
  // Whether the result is the tensor itself is unknown.
  const Value all = sum(reshaped(x, open), dims, false);
  if (!is_open) return call.returns(reshaped(all, to));
  const TensorRef result = call.make_tensor(reshaped(all, to));
  call.may_share(result, call.ref("self"));
  call.returns(std::vector<Item>{Item(result)});
}

constexpr SharedTraits kShared = {.layout = ResultLayout::row_major};
constexpr Row kRows[] = {
    {.op = "aten::sum_to_size", .run = sum_to_size, .layout = ResultLayout::kept},
    {.op = "aten::sum",
     .run = sum_of,
     .complex = OnComplex::parts,
     .fold = {fold::reduce, "add"},
     .script = {lists::sum},
     .grown_list = grown::total},
    {"aten::nansum", nansum},
    {.op = "aten::prod", .run = prod_of, .fold = {fold::reduce, "mul"}},
    {"aten::mean", mean_of, OnComplex::parts},
    {.op = "aten::nanmean", .run = nanmean, .layout = ResultLayout::kept},
    {"aten::amax", amax_of},
    {"aten::amin", amin_of},
    {"aten::aminmax", aminmax},
    {.op = "aten::max", .run = amax_of, .fold = {fold::reduce, "max"}, .script = {numbers::max}},
    {.op = "aten::min", .run = amin_of, .fold = {fold::reduce, "min"}, .script = {numbers::min}},
    {"aten::max.dim", max_dim},
    {"aten::min.dim", min_dim},
    {"aten::argmax", argmax_of},
    {"aten::argmin", argmin_of},
    {.op = "aten::all", .run = all_of, .script = {comparisons::all_or_any}},
    {.op = "aten::any", .run = any_of, .script = {comparisons::all_or_any}},
    {"aten::var", var_of},
    {"aten::std", std_of},
    {"aten::var_mean", var_mean},
    {"aten::std_mean", std_mean},
    {"aten::logsumexp", logsumexp_of},
    {"aten::special_logsumexp", logsumexp_of},
    {"aten::count_nonzero", count_nonzero, OnComplex::magnitudes},
    {"aten::norm", norm_of, OnComplex::magnitudes},
    {"aten::linalg_vector_norm", vector_norm, OnComplex::magnitudes},
    {.op = "aten::linalg_matrix_norm", .run = matrix_norm, .layout = ResultLayout::kept},
    {"aten::linalg_norm", linalg_norm},
    {.op = "aten::frobenius_norm", .run = frobenius_norm, .layout = ResultLayout::kept},
    {"aten::dist", dist},
};
constexpr auto kTable = rows_with(kShared, kRows);

}  // namespace

std::span<const Row> reduce() { return kTable; }

}  // namespace hg::convert::rows
