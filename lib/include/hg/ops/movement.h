// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/movement.cpp, copy.cpp, index.cpp and scatter.cpp: elements moved, picked and
// put. Indices are i64; one that is out of range fails the run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hg/graph.h"
#include "hg/words.h"

namespace hg {

// x's elements in row-major order in another shape; no -1.
inline Value reshape(const Value& x, Shape shape) {
  return x.graph()->call("reshape", {x}, {{"shape", std::move(shape)}});
}
// x as a constant for gradients: they are zero beyond.
inline Value detach(const Value& x) { return x.graph()->call("detach", {x}); }
// Dim i of the result is dim dims[i] of x.
inline Value permute(const Value& x, std::vector<Dim> dims) {
  return x.graph()->call("permute", {x}, {{"dims", std::move(dims)}});
}
// x repeated along its dims of one element, and along new leading dims.
inline Value expand(const Value& x, Shape shape) {
  return x.graph()->call("expand", {x}, {{"shape", std::move(shape)}});
}
// [start, end) of dim, in steps; 0 <= start <= end <= size.
inline Value slice(const Value& x, int dim, const Dim& start, const Dim& end, const Dim& step = 1) {
  return x.graph()->call("slice", {x},
                         {{"dim", dim}, {"start", start}, {"end", end}, {"step", step}});
}
inline Value flip(const Value& x, std::vector<Dim> dims) {
  return x.graph()->call("flip", {x}, {{"dims", std::move(dims)}});
}
// dim1 and dim2 become one last dim: x[..., i, i + offset].
inline Value diagonal(const Value& x, const Dim& offset = 0, int dim1 = 0, int dim2 = 1) {
  return x.graph()->call("diagonal", {x}, {{"offset", offset}, {"dim1", dim1}, {"dim2", dim2}});
}
// Windows of `size` elements along dim, every `step`; the window is a new last dim.
inline Value unfold(const Value& x, int dim, const Dim& size, const Dim& step) {
  return x.graph()->call("unfold", {x}, {{"dim", dim}, {"size", size}, {"step", step}});
}
// The tensors joined along dim; of none, an empty Value.
inline Value concat(const std::vector<Value>& xs, int dim = 0) {
  return xs.empty() ? Value() : xs.front().graph()->call("concat", xs, {{"dim", dim}});
}
// pads: [begin, end] of each dim.
inline Value pad(const Value& x, std::vector<Dim> pads, PadMode mode = PadMode::constant,
                 double value = 0) {
  return x.graph()->call("pad", {x}, {{"pads", std::move(pads)}, {"mode", mode}, {"value", value}});
}
// Zero above (below) the diagonal of the last two dims.
inline Value tril(const Value& x, const Dim& diagonal = 0) {
  return x.graph()->call("tril", {x}, {{"diagonal", diagonal}});
}
inline Value triu(const Value& x, const Dim& diagonal = 0) {
  return x.graph()->call("triu", {x}, {{"diagonal", diagonal}});
}
// The whole tensor `repeats` times along each dim.
inline Value repeat(const Value& x, std::vector<Dim> repeats) {
  return x.graph()->call("repeat", {x}, {{"repeats", std::move(repeats)}});
}
// y[i, j] = x[index[i, j], j] for dim 0
inline Value gather(const Value& x, const Value& index, int dim) {
  return x.graph()->call("gather", {x, index}, {{"dim", dim}});
}
// y[i, ...] = x[index[i], ...] for dim 0; index: [n]
inline Value index_select(const Value& x, const Value& index, int dim) {
  return x.graph()->call("index_select", {x, index}, {{"dim", dim}});
}
// weight: [rows, width], indices: any shape; y: [indices..., width]
inline Value embedding(const Value& weight, const Value& indices) {
  return weight.graph()->call("embedding", {weight, indices});
}
// x with x[index[i, j], j] reduced with src[i, j] for dim 0
inline Value scatter(const Value& x, const Value& index, const Value& src, int dim,
                     ScatterReduce reduce = ScatterReduce::none) {
  return x.graph()->call("scatter", {x, index, src}, {{"dim", dim}, {"reduce", reduce}});
}

}  // namespace hg
