// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/index.cpp, scatter.cpp and scatter_view.cpp: elements picked and put by
// index. Indices are i64; one that is out of range fails the run.
#pragma once

#include <utility>
#include <vector>

#include "hg/graph.h"
#include "hg/words.h"

namespace hg {

// y[i, j] = x[index[i, j], j] for dim 0
inline Value gather(const Value& x, const Value& index, int dim) {
  return x.graph()->call("gather", {x, index}, {{"dim", dim}});
}
// y[i, ...] = x[index[i], ...] for dim 0; index: [n]
inline Value index_select(const Value& x, const Value& index, int dim) {
  return x.graph()->call("index_select", {x, index}, {{"dim", dim}});
}
// weight: [rows, width], indices: any shape; y: [indices..., width]. The row padding_idx gets no
// gradient, unless it is -1; scale_grad_by_freq divides a row's gradient by how often it is read.
inline Value embedding(const Value& weight, const Value& indices, Dim padding_idx = -1,
                       bool scale_grad_by_freq = false) {
  return weight.graph()->call(
      "embedding", {weight, indices},
      {{"padding_idx", padding_idx}, {"scale_grad_by_freq", scale_grad_by_freq}});
}
// y[p, ...] = x[indices[0][p], indices[1][p], ..., ...]: the first dims of x by index, one at
// least, all indices of one shape; the other dims of x come last.
inline Value index(const Value& x, const std::vector<Value>& indices) {
  std::vector<Value> inputs = {x};
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  return x.graph()->call("index", inputs);
}
// x with y[indices[0][p], ..., ...] = values[p, ...] in the order of p, or += with accumulate.
// values has the shape that index() gives.
inline Value index_put(const Value& x, const Value& values, const std::vector<Value>& indices,
                       bool accumulate = false) {
  std::vector<Value> inputs = {x, values};
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  return x.graph()->call("index_put", inputs, {{"accumulate", accumulate}});
}
// y[..., k] = k == x[...]: i64[x..., num_classes]. -1: as many classes as the largest of x needs,
// which is known only when it runs.
inline Value one_hot(const Value& x, Dim num_classes = -1) {
  return x.graph()->call("one_hot", {x}, {{"num_classes", num_classes}});
}
// The places of the elements that are not 0, in row-major order: i64[number of them, rank of x].
inline Value nonzero(const Value& x) { return x.graph()->call("nonzero", {x}); }
// repeats: i64[n]; i stands repeats[i] times, in order: i64[sum of repeats].
inline Value repeat_interleave(const Value& repeats) {
  return repeats.graph()->call("repeat_interleave", {repeats});
}
// x with x[index[i, j], j] reduced with src[i, j] for dim 0. Without include_self what x has there
// does not count.
inline Value scatter(const Value& x, const Value& index, const Value& src, int dim,
                     ScatterReduce reduce = ScatterReduce::none, bool include_self = true) {
  return x.graph()->call("scatter", {x, index, src},
                         {{"dim", dim}, {"reduce", reduce}, {"include_self", include_self}});
}
// x with x[index[i], ...] reduced with src[i, ...] for dim 0; index: [n].
inline Value index_reduce(const Value& x, const Value& index, const Value& src, int dim,
                          ScatterReduce reduce = ScatterReduce::none, bool include_self = true) {
  return x.graph()->call("index_reduce", {x, index, src},
                         {{"dim", dim}, {"reduce", reduce}, {"include_self", include_self}});
}
// x with its k-th element where mask is true replaced by the k-th of src. mask: bool, x's shape.
inline Value masked_scatter(const Value& x, const Value& mask, const Value& src) {
  return x.graph()->call("masked_scatter", {x, mask, src});
}
// x with src where slice(x, dim, start, end, step) looks; likewise diagonal() and as_strided().
inline Value slice_scatter(const Value& x, const Value& src, int dim, const Dim& start,
                           const Dim& end, const Dim& step = 1) {
  return x.graph()->call("slice_scatter", {x, src},
                         {{"dim", dim}, {"start", start}, {"end", end}, {"step", step}});
}
inline Value diagonal_scatter(const Value& x, const Value& src, const Dim& offset = 0, int dim1 = 0,
                              int dim2 = 1) {
  return x.graph()->call("diagonal_scatter", {x, src},
                         {{"offset", offset}, {"dim1", dim1}, {"dim2", dim2}});
}
inline Value as_strided_scatter(const Value& x, const Value& src, std::vector<Dim> size,
                                std::vector<Dim> stride, const Dim& storage_offset = 0) {
  return x.graph()->call("as_strided_scatter", {x, src},
                         {{"size", Attr(std::move(size))},
                          {"stride", Attr(std::move(stride))},
                          {"storage_offset", storage_offset}});
}

}  // namespace hg
