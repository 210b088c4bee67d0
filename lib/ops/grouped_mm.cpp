// SPDX-License-Identifier: Apache-2.0
// Matrix products in groups, as in mixture-of-experts layers. ends[e] is the end of group e in the
// rows and the start of the next group. Rows after the last end belong to no group.
#include "hg/op.h"
#include "lib/graph/internal_op.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

// b of rank 3: a [rows, k], b [groups, k, n] -> y [rows, n], each row times the matrix of its
// group. b of rank 2: a [m, rows], b [rows, n] -> y [groups, m, n], a sum over the rows of each
// group.
Status infer_groups(InferContext& c) {
  const TensorType &a = c.in(0), &b = c.in(1), &ends = c.in(2);
  if (a.rank() != 2 || (b.rank() != 2 && b.rank() != 3))
    return c.fail("a must have 2 dims and b 2 or 3: a is ", a.shape, ", b is ", b.shape);
  if (ends.dtype != i64 || ends.rank() != 1)
    return c.fail("ends must be i64[groups], but is ", ends);
  if (!c.require_equal(a.shape[1], b.shape[b.shape.size() - 2]))
    return c.fail("inner sizes differ: a is ", a.shape, ", b is ", b.shape);
  if (b.rank() == 3 && !c.require_equal(b.shape[0], ends.shape[0]))
    return c.fail("b has ", b.shape[0], " groups, ends ", ends.shape[0]);
  Shape shape = {a.shape[0], b.shape.back()};
  if (b.rank() == 2) shape.insert(shape.begin(), ends.shape[0]);
  c.out(0) = {a.dtype, std::move(shape)};
  return {};
}

Status grouped_mm_infer(InferContext& c) {
  const DType a = c.in(0).dtype, b = c.in(1).dtype;
  if (a != b || !is_float(a))
    return c.fail("both matrices must have one float dtype, but are ", a, " and ", b);
  return infer_groups(c);
}

Status mixed_grouped_mm_infer(InferContext& c) {
  const DType a = c.in(0).dtype, b = c.in(1).dtype;
  if (a != f32 || (b != f16 && b != bf16))
    return c.fail("a is ", a, ", b is ", b, "; a must be f32, b f16 or bf16");
  return infer_groups(c);
}

Status mixed_grouped_mm_expand(ExpandContext& c) {
  c.set_out(0, c.graph().call("grouped_mm", {c.in(0), cast(c.in(1), f32), c.in(2)}));
  return {};
}

// Rank 3: da = dy b^T in each group, db[e] = a^T dy over the rows of e. Rank 2: da^T = b dy^T in
// each group, db = a^T dy in each group.
Status grouped_mm_grad(GradContext& c) {
  Graph& g = c.graph();
  const Value a = c.in(0), b = c.in(1), ends = c.in(2), dy = c.dout(0);
  const auto product = [&](const Value& x, const Value& z) {
    return g.call("grouped_mm", {x, z, ends});
  };
  if (c.needs(0))
    c.set_grad(0, b.rank() == 3 ? product(dy, term::transpose_last(b))
                                : term::transpose_last(product(b, term::transpose_last(dy))));
  if (c.needs(1)) c.set_grad(1, product(term::transpose_last(a), dy));
  return {};
}

// Each row belongs to at most one group.
double grouped_mm_flops(std::span<const Sizes> in, std::span<const Sizes>, const AttrReader&) {
  return 2.0 * static_cast<double>(in[0].count()) * static_cast<double>(in[1].back());
}

constexpr OpDef kOps[] = {
    // Matrix products of groups of rows. Group e ends before row ends[e], where group e + 1 begins.
    // ends: i64[groups]. Floats only.
    //
    // - a: [rows, k], b: [groups, k, n] -> [rows, n]: each row times the matrix of its group; zeros
    //   after the last end.
    // - a: [m, rows], b: [rows, n] -> [groups, m, n]: sums over the rows of each group.
    {.signature = "grouped_mm(a, b, ends) -> y",
     .infer = grouped_mm_infer,
     .grad = grouped_mm_grad,
     .flops = grouped_mm_flops},
    // grouped_mm in f32 whose b is kept in f16 or bf16.
    {.signature = "mixed_grouped_mm(a, b, ends) -> y",
     .infer = mixed_grouped_mm_infer,
     .expand = mixed_grouped_mm_expand,
     .traits = kInternal,
     .flops = grouped_mm_flops},
};

}  // namespace

std::span<const OpDef> grouped_mm() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
