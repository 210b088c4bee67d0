// SPDX-License-Identifier: Apache-2.0
// LU factors, their pivots, and solving with them.
#include "converter/aten/matrices.h"
#include "hg/ops/compare.h"
#include "hg/ops/copy.h"
#include "hg/ops/linalg.h"
#include "hg/ops/matmul.h"
#include "hg/ops/operators.h"
#include "hg/ops/pointwise.h"
#include "hg/ops/reduce.h"

namespace hg::convert::rows {
namespace {

Values factors_of(Call& call) {
  if (!call.flag("pivot", true)) call.refuse("pivot", "is false");
  return call.graph().calls("lu", {self_or_a(call)});
}
// Returns the 1-based position of the first zero on the diagonal of u; 0 if there is none.
Value first_zero(const Value& lu) {
  Graph& g = *lu.graph();
  const Value diagonal =
      g.call("diagonal", {lu}, {{"dim1", lu.rank() - 2}, {"dim2", lu.rank() - 1}});
  const Value zero = eq(diagonal, number_like(lu, 0));
  const Dim k = min(lu.dim(-2), lu.dim(-1));
  const Value place = g.call("arange", {}, {{"start", 1}, {"end", k + 1}});
  const Value none = g.call("dims", {}, {{"values", std::vector<Dim>{k + 1}}});
  const Value first = hg::amin(
      concat({where(zero, place, none), expand(none, with(batch_of(lu), {Dim(1)}))}, -1), {-1});
  const Value last = reshape(none, Shape());
  return convert::cast(where(eq(first, last), g.scalar(int64_t{0}, i64), first), i32);
}
void lu_factor(Call& call) {
  const Values v = factors_of(call);
  call.returns(Values{v[0], v[1]});
}
void lu_factor_ex(Call& call) {
  const Values v = factors_of(call);
  call.returns(Values{v[0], v[1], first_zero(v[0])});
}
// p[j, i] = 1 if j = rows[i].
Value permutation(const Value& rows, DType dtype) {
  const Dim n = rows.dim(-1);
  const Value all = rows.graph()->call("arange", {}, {{"end", n}});
  return convert::cast(eq(reshape(all, {n, 1}), widened(rows, 1)), dtype);
}
Value lower_of(const Value& lu) {  // [m, k], ones on the diagonal
  Graph& g = *lu.graph();
  const Dim m = lu.dim(-2), k = min(m, lu.dim(-1));
  const Value one = g.call("eye", {}, {{"n", m}, {"m", k}, {"dtype", lu.dtype()}});
  return g.call("tril", {slice(lu, lu.rank() - 1, 0, k)}, {{"diagonal", -1}}) + one;
}
Value upper_of(const Value& lu) {  // [k, n]
  const Dim k = min(lu.dim(-2), lu.dim(-1));
  return lu.graph()->call("triu", {slice(lu, lu.rank() - 2, 0, k)}, {{"diagonal", 0}});
}
void linalg_lu(Call& call) {  // x = p l u
  const Values v = factors_of(call);
  call.returns(Values{permutation(v[2], v[0].dtype()), lower_of(v[0]), upper_of(v[0])});
}
Value rows_of(Call& call, std::string_view pivots, const Value& lu) {
  return call.graph().call("lu_rows", {convert::cast(call.tensor(pivots), i32)},
                           {{"n", lu.dim(-2)}});
}
void lu_unpack(Call& call) {
  const Value lu = matrices(call, "LU_data");
  const Value none = expand(number_like(lu, 0), Shape{0});
  const bool data = call.flag("unpack_data", true), pivots = call.flag("unpack_pivots", true);
  call.returns(Values{pivots ? permutation(rows_of(call, "LU_pivots", lu), lu.dtype()) : none,
                      data ? lower_of(lu) : none, data ? upper_of(lu) : none});
}
// Solves p l u x = b; with `turn`, the transposed system.
Value solved_by_lu(Value lu, Value p, const Value& b, bool turn) {
  if (turn) {
    const Value y = solve_triangular(transposed(upper_of(lu)), b, false);
    return matmul(p, solve_triangular(transposed(lower_of(lu)), y, true, true));
  }
  const Value y = solve_triangular(lower_of(lu), matmul(transposed(p), b), false, true);
  return solve_triangular(upper_of(lu), y, true);
}
void lu_solve_with(Call& call, std::string_view factors, std::string_view pivots,
                   std::string_view right) {
  Value lu = matrices(call, factors), b = matrices(call, right);
  Value p = permutation(rows_of(call, pivots, lu), lu.dtype());
  const bool left = call.flag("left", true), adjoint = call.flag("adjoint", false);
  if (!left) b = transposed(b);
  share_batch(call, right, lu, b);
  p = expand(p, with(batch_of(lu), {lu.dim(-2), lu.dim(-2)}));
  const Value x = solved_by_lu(lu, p, b, adjoint == left);
  call.returns(left ? x : transposed(x));
}
void linalg_lu_solve(Call& call) { lu_solve_with(call, "LU", "pivots", "B"); }
void lu_solve(Call& call) { lu_solve_with(call, "LU_data", "LU_pivots", "self"); }

constexpr Row kRows[] = {
    {"aten::linalg_lu_factor", lu_factor},
    {"aten::linalg_lu_factor_ex", lu_factor_ex},
    {"aten::_lu_with_info", lu_factor_ex},
    {"aten::linalg_lu", linalg_lu},
    {.op = "aten::lu_unpack", .run = lu_unpack, .numbers = {{{"LU_pivots", DrawnNumbers::pivots}}}},
    {.op = "aten::linalg_lu_solve",
     .run = linalg_lu_solve,
     .numbers = {{{"pivots", DrawnNumbers::pivots}}}},
    {.op = "aten::lu_solve", .run = lu_solve, .numbers = {{{"LU_pivots", DrawnNumbers::pivots}}}},
};

}  // namespace

std::span<const Row> lu() { return kRows; }

}  // namespace hg::convert::rows
