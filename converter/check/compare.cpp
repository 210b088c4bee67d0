// SPDX-License-Identifier: Apache-2.0
#include "converter/check/compare.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "hg/dim.h"

namespace hg::convert {
namespace {

Tolerance tolerance(DType dtype) {
  switch (dtype) {
    case f64:
      return {1e-6, 1e-8};
    case f16:
      return {2e-2, 1e-2};
    case bf16:
      return {6e-2, 4e-2};
    default:
      return {1e-3, 1e-4};
  }
}

template <class T>
double as_double(const void* data, int64_t i) {
  const T& value = static_cast<const T*>(data)[i];
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return static_cast<float>(value);
  else
    return static_cast<double>(value);
}

using Reader = double (*)(const void*, int64_t);

Reader reader(DType dtype) {
  switch (dtype) {
    case f32:
      return as_double<float>;
    case f64:
      return as_double<double>;
    case f16:
      return as_double<Half>;
    default:
      return as_double<BFloat16>;
  }
}

Sizes place(int64_t flat, const Sizes& shape) {
  Sizes result(shape.rank(), 0);
  for (int d = shape.rank() - 1; d >= 0; --d) {
    result[d] = flat % shape[d];
    flat /= shape[d];
  }
  return result;
}

int64_t integer_at(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case i64:
      return static_cast<const int64_t*>(data)[i];
    case i32:
      return static_cast<const int32_t*>(data)[i];
    case i16:
      return static_cast<const int16_t*>(data)[i];
    case i8:
      return static_cast<const int8_t*>(data)[i];
    default:
      return static_cast<const uint8_t*>(data)[i];
  }
}

Comparison compare_integers(const Tensor& got, const Tensor& want, std::string_view whose) {
  Comparison result;
  int64_t wrong = 0, first = -1;
  for (int64_t i = 0; i < want.count(); ++i) {
    int64_t a = integer_at(got.data, got.dtype, i), b = integer_at(want.data, want.dtype, i);
    if (a == b) continue;
    if (wrong++ == 0) first = i;
    result.largest_error = std::max(result.largest_error, std::abs(double(a) - double(b)));
  }
  if (wrong > 0) {
    result.equal = false;
    result.difference =
        str_cat(wrong, " of ", want.count(), " elements differ, first at ",
                place(first, want.shape), ": ", integer_at(got.data, got.dtype, first), ", ", whose,
                " has ", integer_at(want.data, want.dtype, first));
  }
  return result;
}

// Magnitudes of the values of a tensor.
struct Magnitude {
  double usual = 0;  // root mean square without values above 1e3 times the median
  double wide = 0;   // without values above 1e8 times, which absorb all others in f32
};

// A mask of -1e30 or -1e4 must not hide errors in the other values.
Magnitude magnitude_of(const Tensor& tensor) {
  const Reader read = reader(tensor.dtype);
  std::vector<double> sizes;
  sizes.reserve(static_cast<size_t>(tensor.count()));
  int64_t zeros = 0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const double size = std::abs(read(tensor.data, i));
    if (size == 0)
      ++zeros;
    else if (std::isfinite(size))
      sizes.push_back(size);
  }
  if (sizes.empty()) return {};
  const auto middle = sizes.begin() + static_cast<int64_t>((sizes.size() - 1) / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  const double median = *middle;
  const auto root_mean_square = [&](double most) {
    double squares = 0;
    int64_t count = zeros;
    for (const double size : sizes) {
      if (size > most) continue;
      squares += size * size;
      ++count;
    }
    return std::sqrt(squares / static_cast<double>(count));
  };
  return {root_mean_square(1e3 * median), root_mean_square(1e8 * median)};
}

double ulp_of(DType dtype) {
  return dtype == f64 ? 0x1p-52 : dtype == f16 ? 0x1p-10 : dtype == bf16 ? 0x1p-7 : 0x1p-23;
}

Comparison compare_floats(const Tensor& got, const Tensor& want, DType computed_in,
                          std::string_view whose) {
  Comparison result;
  const Tolerance limit = tolerance_for(want, computed_in);
  Reader read = reader(want.dtype);
  int64_t count = want.count();
  double atol = limit.atol;
  int64_t wrong = 0, worst = -1;
  double worst_excess = 0;
  for (int64_t i = 0; i < count; ++i) {
    double a = read(got.data, i), b = read(want.data, i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    double error = std::abs(a - b), allowed = atol + limit.rtol * std::abs(b);
    if (std::isfinite(error)) result.largest_error = std::max(result.largest_error, error);
    if (std::isfinite(b) && error <= allowed) continue;
    double excess = std::isfinite(error) ? error / allowed : HUGE_VAL;
    if (wrong++ == 0 || excess > worst_excess) {
      worst = i;
      worst_excess = excess;
      result.allowed = allowed;
    }
  }
  if (wrong > 0) {
    result.equal = false;
    result.difference =
        str_cat(wrong, " of ", count, " elements differ, worst at ", place(worst, want.shape), ": ",
                read(got.data, worst), ", ", whose, " has ", read(want.data, worst));
  } else {
    result.allowed = atol;
  }
  return result;
}

}  // namespace

Comparison compare(const Tensor& got, const Tensor& want, DType computed_in,
                   std::string_view whose) {
  Comparison result;
  if (got.dtype != want.dtype) {
    result.equal = false;
    result.difference = str_cat("the dtype is ", got.dtype, ", ", whose, " has ", want.dtype);
    return result;
  }
  if (got.shape != want.shape) {
    result.equal = false;
    result.difference = str_cat("the shape is ", got.shape, ", ", whose, " has ", want.shape);
    return result;
  }
  TensorData owners[2];
  const Result<Tensor> a = row_major(got, owners[0]), b = row_major(want, owners[1]);
  if (!a.ok() || !b.ok()) {
    result.equal = false;
    result.difference = std::string((a.ok() ? b : a).status().message());
    return result;
  }
  if (is_complex(want.dtype))
    return compare_floats(view_as_real(*a), view_as_real(*b), computed_in, whose);
  return is_float(want.dtype) ? compare_floats(*a, *b, computed_in, whose)
                              : compare_integers(*a, *b, whose);
}

double number_at(const Tensor& tensor, int64_t index) {
  return is_float(tensor.dtype) ? reader(tensor.dtype)(tensor.data, index)
                                : static_cast<double>(integer_at(tensor.data, tensor.dtype, index));
}

Result<Tensor> row_major(const Tensor& tensor, TensorData& owner) {
  if (tensor.is_contiguous()) return tensor;
  HG_TRY_ASSIGN(owner, TensorData::copy_of(tensor));
  return owner.tensor;
}

// Smaller outputs may be differences of numbers near 1, whose rounding error is about 1e-7 in f32.
constexpr double kLeastSize = 1e-3;

Tolerance tolerance_for(const Tensor& want, DType computed_in) {
  if (!is_float(want.dtype)) return {};
  constexpr double kUlps = 8;  // lost in sums of large and small values
  const DType dtype = ulp_of(computed_in) > ulp_of(want.dtype) ? computed_in : want.dtype;
  const Tolerance limit = tolerance(dtype);
  const Magnitude size = magnitude_of(want);
  return {limit.rtol,
          limit.atol * std::max(size.usual, kLeastSize) + kUlps * ulp_of(dtype) * size.wide};
}

bool is_rounding(const Tensor& got, const Tensor& want, double ulps) {
  if (got.dtype != want.dtype || got.shape != want.shape) return false;
  TensorData owner;
  const Result<Tensor> a = row_major(got, owner);
  if (!a.ok()) return false;
  if (!is_float(want.dtype)) return compare_integers(*a, want, "").equal;
  const double least = std::min(ulps * ulp_of(want.dtype), tolerance(want.dtype).rtol);
  const double size = magnitude_of(want).wide;
  const Reader read = reader(want.dtype);
  for (int64_t i = 0; i < want.count(); ++i) {
    const double x = read(a->data, i), y = read(want.data, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!(std::abs(x - y) <= least * (std::abs(y) + size))) return false;
  }
  return true;
}

}  // namespace hg::convert
