// SPDX-License-Identifier: Apache-2.0
// Slices with constant, symbolic or data-dependent bounds.
#include <numeric>

#include "converter/onnx/node.h"

namespace hg::convert::onnx {
namespace {

// Returns whether a bound that is not constant counts from the end, such as -length. The bound 0
// counts from the start.
bool counts_from_end(const Dim& bound) { return !bound.is_constant() && bound.upper_bound() <= 0; }

// Clamps a bound of a slice to [low, size + low], as the specification requires.
Dim clamped(const Dim& bound, const Dim& size, int64_t low) {
  constexpr int64_t kFar = int64_t{1} << 31;
  if (bound.is_constant() && bound.constant() >= kFar - 1) return size + Dim(low);
  if (bound.is_constant() && bound.constant() <= -kFar) return Dim(low);
  Dim at = bound;
  if (bound.upper_bound() < 0 || counts_from_end(bound)) at = at + size;
  // A bound such as length - 1 counts from the start.
  return max(Dim(low), min(at, size + Dim(low)));
}

// Returns whether a negative bound is clamped to the same element when counted from the end: the
// bound is one or two less than the size, which is then 0 or 1.
bool is_just_below(const Dim& bound, const Dim& size, int64_t low) {
  const Dim below = size - bound;
  return below == Dim(1) || (below == Dim(2) && low == 0);
}

// Number of elements of a list.
size_t count_of(Node& n, int input) {
  if (const auto known = n.known(input)) return known->elements.size();
  const TensorType type = n.type(input);
  if (type.rank() != 1 || !type.shape[0].is_constant())
    n.refuse(str_cat("a list is ", type, ", but its number of elements must be known"));
  return static_cast<size_t>(type.shape[0].constant());
}

// Returns clamped bounds for axes of these sizes. A data-dependent number may be negative, so it is
// clamped in the graph.
Dims bounds_of(Node& n, int input, const Dims& sizes, const std::vector<int64_t>& lows) {
  Dims result;
  const bool old = n.opset() < 10;
  if (!old && n.only_data_decides(input)) {
    Graph& g = n.graph();
    const Value bounds = cast(n.in(input), i64);
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto k = static_cast<int64_t>(i);
      const Value size = reshape(g.call("dims", {}, {{"values", Dims{sizes[i]}}}), {});
      const Value given = reshape(slice(bounds, 0, k, k + 1), {});
      const Value at = where(lt(given, g.scalar(int64_t{0}, i64)), given + size, given);
      const Value low = g.scalar(lows[i], i64);
      result.push_back(n.call().size_of(minimum(maximum(at, low), size + low) - low) +
                       Dim(lows[i]));
    }
    return result;
  }
  const Dims given = old ? dims_of(n.integers(input == 1 ? "starts" : "ends")) : n.dims(input);
  if (given.size() != sizes.size()) n.refuse("its starts, ends and axes differ in length");
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (counts_from_end(given[i])) {
      // The bound 0 is the same element from both ends if the size is 0 with it.
      if (given[i].upper_bound() == 0 && given[i] + sizes[i] != Dim(0))
        n.graph().guard(given[i], Relation::lt, 0, "Slice");
    } else if (!given[i].is_constant() && given[i].lower_bound() < 0 &&
               !is_just_below(given[i], sizes[i], lows[i])) {
      n.graph().guard(0, Relation::le, given[i], "Slice");
    }
    result.push_back(clamped(given[i], sizes[i], lows[i]));
  }
  return result;
}

void sliced(Node& n) {
  Value x = n.in(0);
  std::optional<std::vector<int>> axes = n.axes(10, 3, x.rank());
  if (!axes) {
    axes.emplace(n.opset() < 10 ? n.integers("starts").size() : count_of(n, 1));
    if (static_cast<int>(axes->size()) > x.rank()) n.refuse("it has more starts than dims");
    std::iota(axes->begin(), axes->end(), 0);
  }
  std::vector<int64_t> steps(axes->size(), 1), lows;
  if (n.opset() >= 10 && n.has(4)) steps = n.integers(4);
  if (steps.size() != axes->size()) n.refuse("its steps and axes differ in length");
  Dims sizes;
  for (size_t i = 0; i < axes->size(); ++i) {
    if (steps[i] == 0) n.refuse("a step is 0");
    sizes.push_back(x.dim(axes->at(i)));
    lows.push_back(steps[i] > 0 ? 0 : -1);
  }
  const Dims starts = bounds_of(n, 1, sizes, lows), ends = bounds_of(n, 2, sizes, lows);
  for (size_t i = 0; i < axes->size(); ++i) {
    const int axis = axes->at(i);
    if (steps[i] > 0) {
      const Dim end = max(starts[i], ends[i]);
      if (starts[i] == Dim(0) && end == sizes[i] && steps[i] == 1) continue;
      x = slice(x, axis, starts[i], end, steps[i]);
      continue;
    }
    // Negative step: element j of the flipped axis is size - 1 - j. A start before the first
    // element becomes the first one.
    const Dim last = sizes[i] - Dim(1), start = min(last - starts[i], max(Dim(0), last));
    x = slice(flip(x, {Dim(axis)}), axis, start, max(start, last - ends[i]), -steps[i]);
  }
  n.give(x);
}

constexpr Builtin kRows[] = {
    {"onnx::Slice", moving_row<sliced>},
};

}  // namespace

Rows slice_rows() { return kRows; }

}  // namespace hg::convert::onnx
