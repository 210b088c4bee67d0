// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements to new memory.
#include <algorithm>

#include "hg/op.h"
#include "lib/graph/element.h"
#include "lib/ops/terms.h"
#include "lib/table/rows.h"

namespace hg::ops {
namespace {

using namespace term;

Status contiguous_infer(InferContext& c) {
  c.out(0) = c.in(0);
  return {};
}

// dx = dy
Status contiguous_grad(GradContext& c) {
  c.set_grad(0, c.dout(0));
  return {};
}

Status concat_infer(InferContext& c) {
  if (c.input_count() == 0) return c.fail("there are no tensors");
  const TensorType& first = c.in(0);
  if (first.rank() == 0) return c.fail("tensor 0 has no dims");
  HG_TRY_ASSIGN(const int dim, c.axis("dim", first.rank()));
  TensorType y = first;
  for (int i = 1; i < c.input_count(); ++i) {
    const TensorType& x = c.in(i);
    if (x.dtype != first.dtype)
      return c.fail("tensor 0 is ", first.dtype, ", tensor ", i, " is ", x.dtype);
    if (x.rank() != first.rank())
      return c.fail("tensor 0 is ", first.shape, ", tensor ", i, " is ", x.shape);
    for (size_t d = 0; d < x.shape.size(); ++d) {
      if (static_cast<int>(d) == dim) {
        y.shape[d] = y.shape[d] + x.shape[d];
        continue;
      }
      if (!c.require_equal(x.shape[d], y.shape[d]))
        return c.fail("tensor 0 is ", first.shape, ", tensor ", i, " is ", x.shape,
                      ": they differ in dim ", int64_t(d));
      if (x.shape[d].is_constant()) y.shape[d] = x.shape[d];
    }
  }
  c.out(0) = std::move(y);
  return {};
}

// dx_i = the part of dy that comes from x_i
Status concat_grad(GradContext& c) {
  HG_TRY_ASSIGN(const int dim, c.axis("dim", c.out(0).rank()));
  Dim start = 0;
  for (int i = 0; i < c.input_count(); ++i) {
    const Dim end = start + c.in(i).dim(dim);
    if (c.needs(i)) c.set_grad(i, slice(c.dout(0), dim, start, end));
    start = end;
  }
  return {};
}

// pads: [begin, end] of each dim; negative numbers remove elements.
Status pad_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  const std::span<const Dim> pads = c.attrs().integers("pads");
  const std::string& mode = c.attrs().string("mode");
  if (mode != "constant" && mode != "reflect" && mode != "replicate" && mode != "circular")
    return c.fail("mode is '", mode, "', expected one of constant reflect replicate circular");
  if (pads.size() != 2 * x.shape.size())
    return c.fail("pads has ", int64_t(pads.size()), " numbers, x is ", x.shape);
  if (const double v = c.attrs().real("value"); mode == "constant" && !holds(x.dtype, v))
    return c.fail("value is ", v, ", which ", x.dtype, " does not hold");
  TensorType y = x;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    const Dim& begin = pads[2 * d];
    const Dim& end = pads[2 * d + 1];
    y.shape[d] = x.shape[d] + begin + end;
    const auto takes_more = [&](const Dim& pad) {
      return !(pad.is_constant() && pad.constant() >= 0) &&
             !c.require_at_least(x.shape[d] + pad, 0);
    };
    if (takes_more(begin) || takes_more(end) || !c.require_at_least(y.shape[d], 0))
      return c.fail("pads ", begin, " and ", end, " leave less than nothing of dim ", int64_t(d),
                    " of ", x.shape);
    if (mode == "constant" || (begin == Dim(0) && end == Dim(0))) continue;
    const Dim most = max(begin, end);  // elements that the padding reads
    const Dim kept = x.shape[d] + min(begin, 0) + min(end, 0);
    const bool enough = mode == "reflect"    ? c.require_at_least(x.shape[d] - 1 - most, 0)
                        : mode == "circular" ? c.require_at_least(x.shape[d] - most, 0) &&
                                                   c.require_at_least(kept, 1)
                                             : c.require_at_least(x.shape[d], 1);
    if (!enough)
      return c.fail("dim ", int64_t(d), " of ", x.shape, " is too short for the padding ", begin,
                    " and ", end, " of mode '", mode, "'");
  }
  c.out(0) = std::move(y);
  return {};
}

// constant: dx = dy without the padding. Otherwise padded elements come from inside. One dim at a
// time: dx[source] += dy.
Status pad_grad(GradContext& c) {
  Graph& g = c.graph();
  const std::span<const Dim> pads = c.attrs().integers("pads");
  const Value x = c.in(0);
  Value dx = c.dout(0);
  const std::string& mode = c.attrs().string("mode");
  if (mode == "constant") {
    Dims back;
    for (const Dim& pad : pads) back.push_back(-pad);
    c.set_grad(0, g.call("pad", {dx}, {{"pads", std::move(back)}}));
    return {};
  }
  for (int d = 0; d < x.rank(); ++d) {
    const Dims along = {pads[2 * d], pads[2 * d + 1]};
    if (along[0] == Dim(0) && along[1] == Dim(0)) continue;
    const Value inside = g.call("arange", {}, {{"end", x.dim(d)}});
    const Value source = g.call("pad", {inside}, {{"pads", along}, {"mode", mode}});
    Shape shape = dx.shape();
    shape[d] = x.dim(d);
    dx = g.call("index_reduce", {expand(number(x, 0), shape), source, dx},
                {{"dim", d}, {"reduce", "add"}});
  }
  c.set_grad(0, dx);
  return {};
}

Status triangle_infer(InferContext& c) {
  if (c.in(0).rank() < 2) return c.fail("x is ", c.in(0).shape, ", but needs two dims");
  c.out(0) = c.in(0);
  return {};
}

// dx = the same triangle of dy
Status triangle_grad(GradContext& c) {
  c.set_grad(0, c.graph().call(c.attrs().op().name(), {c.dout(0)},
                               {{"diagonal", c.attrs().raw("diagonal")}}));
  return {};
}

Status roll_infer(InferContext& c) {
  HG_TRY_ASSIGN(const std::vector<int> dims, c.axes("dims", c.in(0).rank()));
  if (dims.size() != c.attrs().integers("shifts").size())
    return c.fail("shifts has ", int64_t(c.attrs().integers("shifts").size()),
                  " numbers, dims has ", int64_t(dims.size()));
  c.out(0) = c.in(0);
  return {};
}

// dx = dy rolled back
Status roll_grad(GradContext& c) {
  Dims back;
  for (const Dim& shift : c.attrs().integers("shifts")) back.push_back(-shift);
  c.set_grad(0, c.graph().call("roll", {c.dout(0)},
                               {{"shifts", std::move(back)}, {"dims", c.attrs().raw("dims")}}));
  return {};
}

// y[i * n + j] = x[j], where n is the size of x, for every dim; missing leading dims are added.
Status repeat_infer(InferContext& c) {
  const TensorType& x = c.in(0);
  const std::span<const Dim> repeats = c.attrs().integers("repeats");
  if (repeats.size() < x.shape.size())
    return c.fail("repeats has ", int64_t(repeats.size()), " numbers, x is ", x.shape);
  const size_t added = repeats.size() - x.shape.size();
  TensorType y{x.dtype, {}};
  for (size_t d = 0; d < repeats.size(); ++d) {
    if (!c.require_at_least(repeats[d], 0)) return c.fail("cannot repeat ", repeats[d], " times");
    y.shape.push_back(d < added ? repeats[d] : repeats[d] * x.shape[d - added]);
  }
  c.out(0) = std::move(y);
  return {};
}

// x [n] -> [1, n] -> [r, n] -> [r n], for every dim
Status repeat_expand(ExpandContext& c) {
  const Value x = c.in(0);
  const std::span<const Dim> repeats = c.attrs().integers("repeats");
  const size_t added = repeats.size() - x.shape().size();
  Shape apart, wide, joined;
  for (size_t d = 0; d < repeats.size(); ++d) {
    const Dim n = d < added ? Dim(1) : x.shape()[d - added];
    joined.push_back(repeats[d] * n);
    if (!(repeats[d] == Dim(1))) {
      apart.push_back(1);
      wide.push_back(repeats[d]);
    }
    if (d >= added) {
      apart.push_back(n);
      wide.push_back(n);
    } else if (repeats[d] == Dim(1)) {
      apart.push_back(1);
      wide.push_back(1);
    }
  }
  c.set_out(0, reshape(expand(reshape(x, apart), wide), joined));
  return {};
}

constexpr OpDef kOps[] = {
    // Returns x with its elements in row-major order, without gaps or overlaps.
    {.signature = "contiguous(x) -> y", .infer = contiguous_infer, .grad = contiguous_grad},
    // Joins tensors along dim.
    {.signature = "concat(xs..., dim: int = 0) -> y",
     .infer = concat_infer,
     .grad = concat_grad,
     .traits = kConcatenation | kKeepsFinite},
    // pads: [begin, end] of each dim; negative values crop.
    {.signature = "pad(x, pads: int[], mode: str = \"constant\", value: float = 0) -> y",
     .infer = pad_infer,
     .grad = pad_grad},
    // Sets elements above the diagonal of the last two dims to zero.
    {.signature = "tril(x, diagonal: int = 0) -> y",
     .infer = triangle_infer,
     .grad = triangle_grad,
     .alias = 1},
    // Sets elements below the diagonal of the last two dims to zero.
    {.signature = "triu(x, diagonal: int = 0) -> y",
     .infer = triangle_infer,
     .grad = triangle_grad,
     .alias = 1},
    // y[(i + shifts[k]) mod size] = x[i] along dims[k]. Empty dims: rolls the elements in row-major
    // order.
    {.signature = "roll(x, shifts: int[], dims: int[]) -> y",
     .infer = roll_infer,
     .grad = roll_grad},
    // Repeats the whole tensor repeats[d] times along dim d.
    {.signature = "repeat(x, repeats: int[]) -> y", .infer = repeat_infer, .expand = repeat_expand},
};

}  // namespace

std::span<const OpDef> copy() { return chosen_rows<kOps>(); }

}  // namespace hg::ops
