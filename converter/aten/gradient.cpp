// SPDX-License-Identifier: Apache-2.0
// torch.gradient: derivatives along dims from differences between neighbors.
#include "converter/rows/rows.h"
#include "converter/rows/scalar.h"
#include "hg/op.h"
#include "hg/ops/movement.h"
#include "hg/ops/operators.h"

namespace hg::convert::rows {
namespace {

using Values = std::vector<Value>;

// The derivative along one dim, for points `h` apart, or at the coordinates `at` along that dim.
class Derivative {
 public:
  Derivative(Call& call, Value y, int dim, const Value& at, Real h)
      : y_(std::move(y)),
        dim_(dim),
        size_(y_.dim(dim)),
        h_(std::move(h)),
        order_(call.number("edge_order", 1)) {
    if (order_ != 1 && order_ != 2)
      call.refuse("edge_order", str_cat("is ", order_, ", not 1 or 2"));
    if (size_.upper_bound() <= order_)
      call.refuse("self", str_cat("has the size ", size_, " along dim ", dim));
    if (!at) return;
    if (at.rank() != 1) call.refuse("spacing", "holds a tensor that has not one dim");
    Shape shape(y_.rank(), Dim(1));
    shape[dim] = size_ - 1;
    const Value places = convert::cast(at, y_.dtype());
    steps_ = reshape(hg::slice(places, 0, 1, size_) - hg::slice(places, 0, 0, size_ - 1), shape);
  }

  Value value() const {
    return y_.graph()->call("concat", {edge(true), inside(), edge(false)}, {{"dim", dim_}});
  }

 private:
  Value part(const Dim& start, const Dim& end) const { return hg::slice(y_, dim_, start, end); }
  Value step(const Dim& start, const Dim& end) const { return hg::slice(steps_, dim_, start, end); }

  // Parabola through three neighbors a, b and c at distances p and q.
  Value inside() const {
    const Value a = part(0, size_ - 2), b = part(1, size_ - 1), c = part(2, size_);
    if (!steps_) return (c - a) / (2 * h_);
    const Value p = step(0, size_ - 2), q = step(1, size_ - 1);
    return a * (q * -1.0 / (p * (p + q))) + b * ((q - p) / (p * q)) + c * (p / (q * (p + q)));
  }

  Value edge(bool first) const {
    // a is the outermost point, and p the step from it to the next.
    const auto at = [&](int i) { return first ? part(i, i + 1) : part(size_ - i - 1, size_ - i); };
    const auto apart = [&](int i) {
      return first ? step(i, i + 1) : step(size_ - i - 2, size_ - i - 1);
    };
    const double sign = first ? 1 : -1;
    const Value a = at(0), b = at(1);
    if (order_ == 1) return (b - a) * sign / (steps_ ? apart(0) : h_.like(y_));
    const Value c = at(2);
    if (!steps_) return (a * -1.5 + b * 2.0 - c * 0.5) * (sign / h_);
    const Value p = apart(0), q = apart(1);
    return (a * ((p * 2.0 + q) * -1.0 / (p * (p + q))) + b * ((p + q) / (p * q)) -
            c * (p / (q * (p + q)))) *
           sign;
  }

  Value y_, steps_;
  int dim_;
  Dim size_;
  Real h_;
  int64_t order_;
};

void gradient_of(Call& call) {
  Value y = call.tensor("self");
  if (!is_float(y.dtype())) y = convert::cast(y, f32);
  std::vector<int> dims;
  if (call.has("dim")) {
    for (const Dim& dim : call.integers("dim")) {
      const Result<int> axis = normalize_axis(dim.constant(), y.rank());
      if (!axis.ok()) call.refuse("dim", std::string(axis.status().message()));
      dims.push_back(*axis);
    }
  } else {
    for (int d = 0; d < y.rank(); ++d) dims.push_back(d);
  }
  Values places;
  std::vector<Real> spacing = {1};
  if (call.overload().starts_with("tensorarray"))
    places = call.tensors("spacing");
  else if (call.has("spacing"))
    spacing = scalars(call, "spacing");
  if (spacing.size() == 1) spacing.resize(dims.size(), spacing[0]);
  if ((places.empty() ? spacing.size() : places.size()) != dims.size())
    call.refuse("spacing", str_cat("has not one entry for each of ",
                                   static_cast<int64_t>(dims.size()), " dims"));
  Values results;
  for (size_t i = 0; i < dims.size(); ++i)
    results.push_back(
        Derivative(call, y, dims[i], places.empty() ? Value() : places[i], spacing[i]).value());
  call.returns_list(results);
}

constexpr Row kRows[] = {{"aten::gradient", gradient_of}};

}  // namespace

std::span<const Row> gradient() { return kRows; }

}  // namespace hg::convert::rows
