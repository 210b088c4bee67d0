// SPDX-License-Identifier: Apache-2.0
// f32 holds each integer up to 2^24, so that sums are exact in any order where the magnitudes of
// what they add up stay below that. A constant weight says how large they can become, which is
// mostly far less than 8 bits allow; deeper sums are divided into parts, which f64 adds up.
#include "converter/onnx/integers.h"

#include <algorithm>
#include <cmath>

#include "converter/onnx/contrib.h"
#include "lib/graph/element.h"

namespace hg::convert::onnx {
namespace {

constexpr double kExact = 1 << 24;
constexpr size_t kMostParts = 16;

// The largest difference of an integer within the limits and one of the zero points.
double farthest(const Limits& of, const std::vector<double>& zeros) {
  double result = 0;
  for (const double zero : zeros) result = std::max({result, of.high - zero, zero - of.low});
  return result;
}

// A weight as [before, depth, inner], to be summed over the depth, and over `inner` too if that is
// the window of a convolution.
struct Summed {
  Summed(const Value& weight, int axis, bool is_window) : window(is_window) {
    for (int d = 0; d < weight.rank(); ++d) {
      Dim& size = d < axis ? before : d == axis ? depth : inner;
      size = size * weight.dim(d);
    }
  }
  bool known() const { return depth.is_constant() && inner.is_constant(); }
  Dim before = 1, depth = 1, inner = 1;
  bool window;
};

// By how much one place of the depth can change the magnitude of each sum.
class Growth {
 public:
  Growth(const Integers& x, const Integers& weight, const Summed& s)
      : weight_(weight), s_(s), most_x_(x.most) {
    if (!weight.numbers) {
      const Dim taps = s.window ? s.inner : Dim(1);
      each_ = {weight.most * most_x_ * static_cast<double>(taps.constant())};
      return;
    }
    const Sizes& shape = weight.numbers->shape;
    for (int d = weight.axis + 1; d < shape.rank(); ++d) zero_step_ *= shape[d];
    if (weight.zeros.size() > 1) zero_count_ = shape[weight.axis];
    const int64_t sums = s.window ? 1 : s.inner.constant();
    each_.resize(static_cast<size_t>(s.before.constant() * sums));
  }
  size_t sums() const { return each_.size(); }

  const std::vector<double>& at(int64_t place) {
    if (!weight_.numbers) return each_;
    std::fill(each_.begin(), each_.end(), 0);
    const int64_t depth = s_.depth.constant(), inner = s_.inner.constant();
    for (int64_t b = 0; b < s_.before.constant(); ++b)
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t k = (b * depth + place) * inner + i;
        const double zero = weight_.zeros.empty() ? 0 : weight_.zeros[zero_of(k)];
        each_[static_cast<size_t>(s_.window ? b : b * inner + i)] +=
            std::abs(element(*weight_.numbers, k) - zero) * most_x_;
      }
    return each_;
  }

 private:
  size_t zero_of(int64_t k) const { return static_cast<size_t>(k / zero_step_ % zero_count_); }

  const Integers& weight_;
  const Summed& s_;
  double most_x_;
  int64_t zero_step_ = 1, zero_count_ = 1;
  std::vector<double> each_;
};

// Where the depth is divided, such that f32 holds the sums of each part: 0, ..., depth. Nothing
// where that is not known, or takes too many parts.
std::vector<int64_t> parts_of(const Integers& x, const Integers& weight, const Summed& s) {
  if (x.value.dtype() != f32 || weight.value.dtype() != f32 || !s.known()) return {};
  Growth growth(x, weight, s);
  std::vector<int64_t> parts = {0};
  std::vector<double> sums(growth.sums());
  for (int64_t place = 0; place < s.depth.constant(); ++place) {
    const std::vector<double>& grown = growth.at(place);
    bool fits = true;
    for (size_t i = 0; i < sums.size(); ++i) {
      if (grown[i] > kExact) return {};
      sums[i] += grown[i];
      fits = fits && sums[i] <= kExact;
    }
    if (fits) continue;
    if (parts.size() == kMostParts) return {};
    parts.push_back(place);
    sums = grown;
  }
  parts.push_back(s.depth.constant());
  return parts;
}

// The sum of `sum_of` x and the weight over their dims of the depth. x has none (-1) where it
// cannot be divided.
template <class SumOf>
Value exact_sum(const Integers& x, int x_dim, const Integers& weight, int weight_dim, bool window,
                const SumOf& sum_of) {
  const std::vector<int64_t> parts = parts_of(x, weight, Summed(weight.value, weight_dim, window));
  if (parts.size() == 2) return sum_of(x.value, weight.value);
  if (parts.empty() || x_dim < 0) return sum_of(cast(x.value, f64), cast(weight.value, f64));
  Value total;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const auto part = [&](const Value& of, int dim) {
      return slice(of, dim, parts[i], parts[i + 1]);
    };
    const Value sum = cast(sum_of(part(x.value, x_dim), part(weight.value, weight_dim)), f64);
    total = total ? total + sum : sum;
  }
  return total;
}

Value transposed(const Value& matrix, bool is_so) {
  return is_so ? permute(matrix, {1, 0}) : matrix;
}

}  // namespace

Integers integers_of(Node& n, int i, int zero, int axis) {
  const Value x = n.in(i);
  const DType wide = x.dtype() == u8 || x.dtype() == i8 ? f32 : f64;
  Integers result = {.value = cast(x, wide), .most = 255};
  bool known = true;
  if (n.has(zero)) {
    const Value point = n.in(zero);
    result.value = result.value - placed_along(cast(point, wide), x, axis);
    result.axis = axis < 0 ? axis + x.rank() : axis;
    if (point.rank() <= 1 && n.is_constant(zero)) result.zeros = n.reals(zero);
    const auto count = static_cast<int64_t>(result.zeros.size());
    known = count == 1 || (count > 1 && x.dim(result.axis) == Dim(count));
  }
  if (known && wide == f32) {
    result.most =
        farthest(limits_of(n, x.dtype()), n.has(zero) ? result.zeros : std::vector<double>{0});
    if (const TensorData* constant = n.graph().constant_of(x.id()))
      result.numbers = constant->tensor;
  }
  return result;
}

Integers integers_at(Node& n, int i, int zero, int64_t place) {
  const Value x = n.in(i), point = n.in(zero);
  limits_of(n, x.dtype());
  Shape beside(x.rank(), Dim(1)), shape = x.shape();
  beside.front() = x.dim(0);
  if (point.rank() > 1) beside.back() = x.dim(x.rank() - 1);
  shape.erase(shape.begin());
  const Value numbers = cast(x, f32) - reshape(cast(point, f32), beside);
  Integers result = {.value = reshape(slice(numbers, 0, place, place + 1), std::move(shape)),
                     .most = 255};
  result.axis = x.rank() - 2;
  const TensorData* const constant = n.graph().constant_of(x.id());
  if (constant == nullptr || !n.is_constant(zero)) return result;
  const std::vector<double> zeros = n.reals(zero);
  const size_t count = zeros.size() / static_cast<size_t>(constant->tensor.shape[0]);
  const auto begin = zeros.begin() + static_cast<int64_t>(count) * place;
  result.zeros.assign(begin, begin + static_cast<int64_t>(count));
  result.most = farthest(limits_of(n, x.dtype()), result.zeros);
  Sizes sizes = constant->tensor.shape;
  sizes.erase(0);
  result.numbers =
      view(constant->tensor.as<char>() + place * sizes.count(), x.dtype(), sizes);  // bytes
  return result;
}

Value exact_product(const Integers& a, const Integers& b, bool a_transposed, bool b_transposed) {
  const int a_depth = a_transposed ? 0 : a.value.rank() - 1;
  const int b_depth = b_transposed ? 1 : std::max(0, b.value.rank() - 2);
  return exact_sum(a, a_depth, b, b_depth, false, [&](const Value& x, const Value& y) {
    return matmul(transposed(x, a_transposed), transposed(y, b_transposed));
  });
}

Value exact_convolution(Node& n, const Integers& x, const Integers& weight) {
  const int channels = n.integer("group", 1) == 1 ? 1 : -1;
  return exact_sum(x, channels, weight, 1, true, [&](const Value& part, const Value& of_weight) {
    return convolution_of(n, part, of_weight, {}, true);
  });
}

Value plus_integers(Node& n, const Value& sum, int i, int axis) {
  if (!n.has(i)) return sum;
  bool fits = sum.dtype() == f32 && n.is_constant(i);
  if (fits)
    for (const double each : n.reals(i)) fits = fits && std::abs(each) <= kExact;
  const DType wide = fits ? f32 : f64;  // in f32 the sum is rounded once, here
  return cast(sum, wide) + placed_along(cast(n.in(i), wide), sum, axis);
}

Value scaled(const Value& sum, const Value& scale) { return cast(sum, f32) * scale; }

Value scale_along(Node& n, int i, const Value& x, int axis) {
  return placed_along(cast(scale_of(n, i), f32), x, axis);
}

Value requantized(Node& n, const Value& sum, const Value& scale, int i_y, int axis) {
  const int i_zero = i_y + 1;
  const Value ratio = scaled(sum, scale / scale_along(n, i_y, sum, axis));
  const Value zero = n.has(i_zero) ? placed_along(n.in(i_zero), sum, axis) : Value();
  return quantized(n, ratio, zero, n.type(n.has(i_zero) ? i_zero : 0).dtype);
}

}  // namespace hg::convert::onnx
