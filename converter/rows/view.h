// SPDX-License-Identifier: Apache-2.0
// Views as pairs of graph functions: one computes the view from its base, the other the new base
// after a write through the view. Rows compose and return them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "converter/rows/rows.h"
#include "hg/op.h"
#include "hg/ops/copy.h"
#include "hg/ops/index.h"
#include "hg/ops/movement.h"
#include "hg/ops/scatter.h"
#include "hg/ops/scatter_view.h"

namespace hg::convert::rows {

using Dims = std::vector<Dim>;

struct View {
  Call::Forward forward;
  Call::Inverse inverse;
  Relayout relayout;  // may be empty
};

View reshape_view(Shape shape);
View permute_view(Dims dims);
// The range [start, end) of a dim; both must be within the dim.
View slice_view(int dim, Dim start, Dim end, Dim step = 1);
View select_view(int dim, Dim index);
View index_view(int dim, std::function<Value()> indices);  // i64[k], none negative
View expand_view(Shape shape);
View diagonal_view(Dim offset, int dim1, int dim2);
// Returns a data-dependent index along a dim of this size as a nonnegative i64 value with one
// element.
Value data_index(Call& call, const Value& given, const Dim& size);
// The same numbers without gradients: a write changes the numbers alone.
View detach_view();
View then(View first, View second);

// Adds no node if x already has the shape, or if only one part is given.
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

// Returns whether the op returns copies, unlike the op that it is named after, which returns views.
bool is_copy(const Call& call);
// Returns the view, or a copy of its value if is_copy(call).
Item view_of(Call& call, const TensorRef& base, View view);
void give_view(Call& call, View view, std::string_view argument = "self");
// Returns a view if the layout of the argument allows one, and otherwise a copy, as reshape() and
// contiguous() do. `shares` is empty if the sizes decide.
void give_shared(Call& call, View view, std::optional<bool> shares,
                 std::string_view argument = "self");
void give_views(Call& call, std::vector<View> views, std::string_view argument = "self");

// Returns a dim argument in [0, rank); rejects it if it is out of range.
int normalized_axis(const Call& call, std::string_view argument, const Dim& dim, int rank);
int axis_of(const Call& call, std::string_view argument, int rank, int64_t fallback);
// Accepts a list of integers, or one integer.
Dims integer_list(const Call& call, std::string_view argument);
// Returns several axes, each at most once; all axes if the argument is missing or None.
std::vector<int> axes_of(const Call& call, std::string_view argument, int rank);
// The shape of torch's atleast_1d, atleast_2d and atleast_3d.
Shape at_least(Shape shape, int rank);
Shape broadcast_shape(const Call& call, std::string_view argument, const Shape& a, const Shape& b);
// Returns `sizes` with -1 replaced by the remaining factor of `total` elements.
Shape resolved_shape(Call& call, std::string_view argument, Shape sizes, const Dim& total);
// Bounds of a Python slice, with 0 <= start <= end <= size.
struct Bounds {
  Dim start, end;
};
Bounds slice_bounds(Call& call, const Dim& size);
Bounds bounds_of(Call& call, const Dim& start, const Dim& end, const Dim& size);
// Returns the diagonal that an argument selects; 0 if missing. Diagonals outside every possible
// matrix are clamped to one such diagonal.
Dim diagonal_offset(Call& call, std::string_view argument);
// Converts an index in [-size, size) to one in [0, size). Rejects sizes for which it is out of
// range.
Dim wrapped(Call& call, std::string_view argument, const Dim& index, const Dim& size);

}  // namespace hg::convert::rows
