// SPDX-License-Identifier: Apache-2.0
// Reductions and cumulative reductions along axes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "converter/onnx/node.h"

namespace hg::convert::onnx {
namespace {

struct Axes {
  Dims dims;
  bool keep = true;
  bool none = false;  // reduces nothing
};

// The axes are an input since opset 13 for ReduceSum, and since opset 18 for the others.
Axes axes_of(Node& n, const Value& x) {
  Axes result;
  result.keep = n.flag("keepdims", true);
  const bool attribute = n.opset() < (n.name() == "ReduceSum" ? 13 : 18);
  std::vector<int64_t> given;
  if (attribute)
    given = n.integers("axes");
  else if (n.has(1))
    given = n.integers(1);
  for (const int64_t axis : given)
    if (x.rank() > 0) result.dims.emplace_back(n.axis(axis, x.rank()));
  if (given.empty()) {
    result.none = !attribute && n.flag("noop_with_empty_axes");
    result.dims = range(x.rank());
  }
  return result;
}

Value reduced(std::string_view op, const Value& x, const Axes& axes) {
  if (axes.none) return x;
  const Value y = x.graph()->call(op, {x}, {{"dim", axes.dims}, {"keepdim", axes.keep}});
  return cast(y, x.dtype());
}

bool may_be_empty(const Value& x, const Axes& axes) {
  for (const Dim& d : axes.dims)
    if (x.dim(static_cast<int>(d.constant())) == Dim(0)) return true;
  return false;
}

// The shape of the result of reductions over empty axes.
Shape left_of(const Value& x, const Axes& axes) {
  Shape shape;
  for (int d = 0; d < x.rank(); ++d) {
    const bool gone = std::find(axes.dims.begin(), axes.dims.end(), Dim(d)) != axes.dims.end();
    if (!gone) shape.push_back(x.dim(d));
    if (gone && axes.keep) shape.emplace_back(1);
  }
  return shape;
}

double extreme(DType dtype, bool lowest) {
  switch (dtype) {
    case u8:
      return lowest ? 0 : 255;
    case i8:
      return lowest ? -128 : 127;
    case i32:
      return lowest ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int32_t>::max();
    default:
      return lowest ? -INFINITY : INFINITY;
  }
}

void largest(Node& n, bool max) {
  const Value x = n.in(0);
  const Axes axes = axes_of(n, x);
  if (x.dtype() == boolean) return n.give(axes.none ? x : reduced(max ? "any" : "all", x, axes));
  if (!axes.none && may_be_empty(x, axes)) {
    if (x.dtype() == i64 || x.dtype() == i16) n.refuse("a reduction over no element");
    return n.give(expand(constant_like(x, extreme(x.dtype(), max)), left_of(x, axes)));
  }
  n.give(reduced(max ? "amax" : "amin", x, axes));
}
void reduce_max(Node& n) { largest(n, true); }
void reduce_min(Node& n) { largest(n, false); }

void reduce_sum(Node& n) {
  const Value x = n.in(0);
  n.give(reduced("sum", x, axes_of(n, x)));
}
void reduce_prod(Node& n) {
  const Value x = n.in(0);
  n.give(reduced("prod", x, axes_of(n, x)));
}
void reduce_mean(Node& n) {
  const Value x = n.in(0);
  const Axes axes = axes_of(n, x);
  // Export form of adaptive_avg_pool2d; using that op keeps the image layout known.
  if (is_float(x.dtype()) && x.rank() == 4 && axes.keep && !axes.none &&
      (axes.dims == Dims{2, 3} || axes.dims == Dims{3, 2}))
    return n.give(adaptive_avg_pool(x, {1, 1}));
  if (is_float(x.dtype())) return n.give(reduced("mean", x, axes));
  n.give(cast(reduced("mean", cast(x, f64), axes), x.dtype()));
}
void reduce_l1(Node& n) {
  const Value x = n.in(0);
  n.give(reduced("sum", x.dtype() == u8 ? x : hg::abs(x), axes_of(n, x)));
}
void reduce_sum_square(Node& n) {
  const Value x = n.in(0);
  n.give(reduced("sum", x * x, axes_of(n, x)));
}
void reduce_l2(Node& n) {
  const Value x = n.in(0);
  const Axes axes = axes_of(n, x);
  const Value wide = is_float(x.dtype()) ? x : cast(x, f64);
  n.give(cast(hg::sqrt(reduced("sum", wide * wide, axes)), x.dtype()));
}
void reduce_log_sum(Node& n) {
  const Value x = n.in(0);
  const Axes axes = axes_of(n, x);
  const Value wide = is_float(x.dtype()) ? x : cast(x, f64);
  n.give(cast(hg::log(reduced("sum", wide, axes)), x.dtype()));
}
void reduce_log_sum_exp(Node& n) {
  const Value x = n.in(0);
  const Axes axes = axes_of(n, x);
  const Value wide = is_float(x.dtype()) ? x : cast(x, f64);
  if (axes.none || may_be_empty(x, axes))
    return n.give(cast(hg::log(reduced("sum", hg::exp(wide), axes)), x.dtype()));
  n.give(cast(logsumexp(wide, axes.dims, axes.keep), x.dtype()));
}

void extreme_place(Node& n, bool max) {
  Value x = n.in(0);
  const int axis = n.axis(n.integer("axis", 0), x.rank());
  const bool keep = n.flag("keepdims", true), last = n.flag("select_last_index");
  if (x.rank() == 0) return n.give(n.graph().scalar(int64_t{0}, i64));
  if (last) x = flip(x, {Dim(axis)});
  Value place = max ? argmax(x, Dim(axis), keep) : argmin(x, Dim(axis), keep);
  if (last) {
    const Value size = reshape(n.op("dims", {}, {{"values", Dims{x.dim(axis) - Dim(1)}}}), {});
    place = size - place;
  }
  n.give(place);
}
void arg_max(Node& n) { extreme_place(n, true); }
void arg_min(Node& n) { extreme_place(n, false); }

// Before opset 13, all dims from the axis on are treated as one.
void along_axis(Node& n, std::string_view op) {
  const Value x = n.in(0);
  if (n.opset() >= 13) {
    const int axis = n.axis(n.integer("axis", -1), x.rank());
    return n.give(n.op(op, {x}, {{"dim", axis}}));
  }
  const int axis = n.axis(n.integer("axis", 1), x.rank());
  if (axis == x.rank() - 1) return n.give(n.op(op, {x}, {{"dim", axis}}));
  const auto split = x.shape().begin() + axis;
  const Value flat =
      reshape(x, {count(Shape(x.shape().begin(), split)), count(Shape(split, x.shape().end()))});
  n.give(reshape(n.op(op, {flat}, {{"dim", 1}}), x.shape()));
}
void softmax_of(Node& n) { along_axis(n, "softmax"); }
void log_softmax_of(Node& n) { along_axis(n, "log_softmax"); }

void cumulated(Node& n, std::string_view op, double start) {
  Value x = n.in(0);
  if (x.rank() == 0) n.refuse("its input is a number, which has no axis");
  const int axis = n.axis(n.integer(1), x.rank());
  const bool reverse = n.flag("reverse");
  if (reverse) x = flip(x, {Dim(axis)});
  if (n.flag("exclusive")) {
    // Exclusive: shifts the elements by one and begins with the neutral element.
    Shape first = x.shape();
    first[axis] = 1;
    const Dim size = x.dim(axis);
    x = slice(concat({expand(constant_like(x, start), first), x}, axis), axis, 0, size);
  }
  Value y = cast(n.op(op, {x}, {{"dim", axis}}), x.dtype());
  if (reverse) y = flip(y, {Dim(axis)});
  n.give(y);
}
void cum_sum(Node& n) { cumulated(n, "cumsum", 0); }
void cum_prod(Node& n) { cumulated(n, "cumprod", 1); }

constexpr Builtin kRows[] = {
    {"onnx::ReduceSum", row<reduce_sum>},
    {"onnx::ReduceMean", row<reduce_mean>},
    {"onnx::ReduceProd", row<reduce_prod>},
    {"onnx::ReduceMax", row<reduce_max>},
    {"onnx::ReduceMin", row<reduce_min>},
    {"onnx::ReduceL1", row<reduce_l1>},
    {"onnx::ReduceL2", row<reduce_l2>},
    {"onnx::ReduceLogSum", row<reduce_log_sum>},
    {"onnx::ReduceLogSumExp", row<reduce_log_sum_exp>},
    {"onnx::ReduceSumSquare", row<reduce_sum_square>},
    {"onnx::ArgMax", row<arg_max>},
    {"onnx::ArgMin", row<arg_min>},
    {"onnx::Softmax", row<softmax_of>},
    {"onnx::LogSoftmax", row<log_softmax_of>},
    {"onnx::CumSum", row<cum_sum>},
    {"onnx::CumProd", row<cum_prod>},
};

}  // namespace

Rows reduce_rows() { return kRows; }

}  // namespace hg::convert::onnx
