// SPDX-License-Identifier: Apache-2.0
// Views that several rows make: reshaped, permuted and sliced tensors that write through.
#pragma once

#include <vector>

#include "converter/rows.h"

namespace hg::convert::rows {

// The shape with -1 replaced by what is left of x's elements.
Shape resolved_shape(const Value& x, std::vector<Dim> shape);
// In [0, rank); refuses by the argument's name.
int checked_axis(Call& call, std::string_view argument, int64_t axis, int rank);

Value reshape(const Value& x, Shape shape);
Value permute(const Value& x, const std::vector<int>& dims);

TensorRef reshaped(Call& call, const TensorRef& self, const Shape& shape);
TensorRef permuted(Call& call, const TensorRef& self, const std::vector<int>& dims);
// 0 <= start <= end <= size
TensorRef sliced(Call& call, const TensorRef& self, int dim, const Dim& start, const Dim& end,
                 const Dim& step);
TensorRef selected(Call& call, const TensorRef& self, int dim, const Dim& index);  // index >= 0

}  // namespace hg::convert::rows
