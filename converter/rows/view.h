// SPDX-License-Identifier: Apache-2.0
// Views as pairs of graph functions: what the view shows of its base, and the base after a write
// through the view. Rows in this folder compose and return them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "converter/rows/rows.h"
#include "hg/op.h"
#include "hg/ops/movement.h"

namespace hg::convert::rows {

using Dims = std::vector<Dim>;

struct View {
  Call::Forward forward;
  Call::Inverse inverse;
  Relayout relayout;  // may be empty
};

View reshape_view(Shape shape);
View permute_view(Dims dims);
// [start, end) of dim, already within it.
View slice_view(int dim, Dim start, Dim end, Dim step = 1);
View select_view(int dim, Dim index);
View index_view(int dim, std::function<Value()> indices);  // i64[k], none negative
View expand_view(Shape shape);
View diagonal_view(Dim offset, int dim1, int dim2);
// An index along a dim of this size that data decides, as one element that is not negative.
Value data_index(Call& call, const Value& given, const Dim& size);
// The same floats, through which no gradient goes: a write changes the numbers alone.
View detach_view();
View then(View first, View second);

// Adds no node where x has the shape already, or where only one part is given.
inline Value reshaped(const Value& x, Shape shape) {
  return x.shape() == shape ? x : hg::reshape(x, std::move(shape));
}
inline Value expanded(const Value& x, Shape shape) {
  return x.shape() == shape ? x : hg::expand(x, std::move(shape));
}
inline Value joined(const std::vector<Value>& parts, int dim) {
  return parts.size() == 1 ? parts[0] : hg::concat(parts, dim);
}

inline Value zeros(Graph& g, DType dtype, Shape shape) {
  return g.call("expand", {g.scalar(int64_t{0}, dtype)}, {{"shape", std::move(shape)}});
}

// Whether the op gives copies where the one that it is named after gives views.
bool is_copy(const Call& call);
// The view, or its value alone where the op is one of those.
Item view_of(Call& call, const TensorRef& base, View view);
void give_view(Call& call, View view, std::string_view argument = "self");
// A view where the layout of the argument allows one, as reshape() and contiguous() give it, and
// else a copy. `shares` is none when sizes decide which of the two it is.
void give_shared(Call& call, View view, std::optional<bool> shares,
                 std::string_view argument = "self");
void give_views(Call& call, std::vector<View> views, std::string_view argument = "self");

// A dim argument in [0, rank); refused when it is out of range.
int normalized_axis(const Call& call, std::string_view argument, const Dim& dim, int rank);
int axis_of(const Call& call, std::string_view argument, int rank, int64_t fallback);
// Integers, of which one may be given without a list.
Dims integer_list(const Call& call, std::string_view argument);
// Several axes, each at most once; all of them when the argument is missing or None.
std::vector<int> axes_of(const Call& call, std::string_view argument, int rank);
// The shape of torch's atleast_1d, atleast_2d and atleast_3d.
Shape at_least(Shape shape, int rank);
Shape broadcast_shape(const Call& call, std::string_view argument, const Shape& a, const Shape& b);
// `sizes` with its -1 replaced by what is left of `total` elements.
Shape resolved_shape(Call& call, std::string_view argument, Shape sizes, const Dim& total);
// Bounds of a Python slice as numbers within [0, size], in order.
struct Bounds {
  Dim start, end;
};
Bounds slice_bounds(Call& call, const Dim& size);
Bounds bounds_of(Call& call, const Dim& start, const Dim& end, const Dim& size);
// The diagonal that an argument names, 0 where it is not given. One beyond all that there can be
// stands for those further off.
Dim diagonal_offset(Call& call, std::string_view argument);
// An index in [-size, size) as one from the start; sizes of which it is out of range are refused.
Dim wrapped(Call& call, std::string_view argument, const Dim& index, const Dim& size);

}  // namespace hg::convert::rows
