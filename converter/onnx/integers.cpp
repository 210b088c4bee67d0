// SPDX-License-Identifier: Apache-2.0
#include "converter/onnx/integers.h"

#include <algorithm>

#include "converter/onnx/contrib.h"
#include "converter/onnx/windows.h"

namespace hg::convert::onnx {
namespace {

bool is_number(const Value& v) { return v.rank() == 0 || (v.rank() == 1 && v.dim(0) == Dim(1)); }
// Treats a list of one number as a number.
Value number_or_list(const Value& v) { return v && is_number(v) ? reshape(v, {}) : v; }

Integers checked(Node& n, const Value& x, const Value& zero) {
  if (x.dtype() != u8 && x.dtype() != i8)
    n.refuse(str_cat("it multiplies integers of ", x.dtype()));
  return {x, number_or_list(zero)};
}

Value sum_of(const IntegerSums& sums) {
  const Value sum = sums.made({.bias = sums.bias});
  return sums.more ? sum + sums.more : sum;
}

// Returns whether the graph ops can apply the scales: one row scale, or a list along the same axis
// as the columns.
bool takes(const IntegerSums& sums, const Value& rows, const Value& columns) {
  const bool same = sums.row_axis == sums.column_axis;
  return !sums.more && columns.rank() <= 1 && (rows.rank() == 0 || (same && rows.rank() == 1));
}

Value placed_scale(const IntegerSums& sums, const Value& rows, const Value& columns,
                   const Value& sum) {
  return placed_along(rows, sum, sums.row_axis) * placed_along(columns, sum, sums.column_axis);
}

}  // namespace

Integers integers_of(Node& n, int i, int zero) { return checked(n, n.in(i), n.in_or_none(zero)); }

Integers integers_at(Node& n, int i, int zero, int64_t place) {
  const auto at = [&](const Value& v) {
    if (v.rank() == 0) n.refuse("an input is a number, without directions");
    Shape shape = v.shape();
    shape.erase(shape.begin());
    return reshape(slice(v, 0, place, place + 1), std::move(shape));
  };
  return checked(n, at(n.in(i)), at(n.in(zero)));
}

IntegerSums integer_product(const Integers& a, const Integers& b, bool a_transposed,
                            bool b_transposed) {
  const auto made = [=](const IntegerOptions& result) {
    const auto turned = [](const Value& matrix, bool is_so) {
      return is_so ? permute(matrix, {1, 0}) : matrix;
    };
    Value x = turned(a.value, a_transposed), y = turned(b.value, b_transposed);
    const bool row = x.rank() == 1, column = y.rank() == 1;
    if (row) x = reshape(x, {1, x.dim(0)});
    if (column) y = reshape(y, {y.dim(0), 1});
    IntegerOptions options = result;
    options.x_zero = a.zero;
    options.weight_zero = b.zero;
    const Value product = matmul_integer(x, y, options);
    if (!product || (!row && !column)) return product;
    Shape shape = product.shape();
    if (column) shape.pop_back();
    if (row) shape.erase(shape.end() - (column ? 1 : 2));
    return reshape(product, std::move(shape));
  };
  return {made, -2, -1};
}

IntegerSums integer_convolution(Node& n, const Integers& x, const Integers& weight) {
  const Value kernel = weight.value;
  const Windows w = windows_of(n, x.value.shape(), n.sizes_from(kernel, 2));
  if (n.has("kernel_shape") && dims_of(n.integers("kernel_shape")) != w.kernel)
    n.refuse("attribute 'kernel_shape' is not the shape of the weights");
  ConvIntegerOptions options = {w.strides, w.begin, w.dilations, n.integer("group", 1)};
  options.padding.insert(options.padding.end(), w.end.begin(), w.end.end());
  const auto made = [=](const IntegerOptions& result) {
    IntegerOptions all = result;
    all.x_zero = x.zero;
    all.weight_zero = weight.zero;
    return conv_integer(x.value, kernel, all, options);
  };
  return {made, 1, 1};
}

Value scale_in(Node& n, int i) { return number_or_list(cast(scale_of(n, i), f32)); }

Value scaled(const IntegerSums& sums, const Value& rows, const Value& columns) {
  if (takes(sums, rows, columns)) return sums.made({.bias = sums.bias, .scale = rows * columns});
  const Value sum = sum_of(sums);
  return cast(sum, f32) * placed_scale(sums, rows, columns, sum);
}

Value requantized(Node& n, const IntegerSums& sums, const Value& rows, const Value& columns,
                  int i_y) {
  const Value y = scale_in(n, i_y);
  Value zero = number_or_list(n.in_or_none(i_y + 1));
  const DType dtype = zero ? zero.dtype() : n.type(0).dtype;
  limits_of(n, dtype);
  if (takes(sums, rows, columns) && y.rank() == 0 && (!zero || zero.rank() == 0) && dtype != i16) {
    if (!zero) zero = constant_of(n.graph(), dtype, 0);
    return sums.made({.bias = sums.bias, .scale = rows * columns / y, .zero = zero});
  }
  const Value sum = sum_of(sums);
  const auto placed = [&](const Value& v) { return placed_along(v, sum, sums.row_axis); };
  const Value ratio = cast(sum, f32) * (placed_scale(sums, rows, columns, sum) / placed(y));
  return quantized(n, ratio, zero ? placed(zero) : zero, dtype);
}

}  // namespace hg::convert::onnx
