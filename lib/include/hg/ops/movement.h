// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/movement.cpp and copy.cpp: ops that rearrange elements. hg/ops/index.h
// (included) reads and writes by index; hg/ops/shape.h has torch's shape functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hg/graph.h"
#include "hg/ops/index.h"
#include "hg/words.h"

namespace hg {

// x's elements in row-major order in a new shape; -1 is not allowed.
inline Value reshape(const Value& x, Shape shape) {
  return x.graph()->call("reshape", {x}, {{"shape", std::move(shape)}});
}
// Returns x and stops gradients: they are zero beyond it.
inline Value detach(const Value& x) { return x.graph()->call("detach", {x}); }
// Reinterprets the bits of x as another dtype of the same element size; bool only as bool.
inline Value view_dtype(const Value& x, DType dtype) {
  return x.graph()->call("view_dtype", {x}, {{"dtype", dtype}});
}
// Dim i of the result is dim dims[i] of x.
inline Value permute(const Value& x, std::vector<Dim> dims) {
  return x.graph()->call("permute", {x}, {{"dims", std::move(dims)}});
}
// Broadcasts x: repeats dims of size 1 and adds leading dims.
inline Value expand(const Value& x, Shape shape) {
  return x.graph()->call("expand", {x}, {{"shape", std::move(shape)}});
}
// Elements [start, end) of dim with the given step; 0 <= start <= end <= size.
inline Value slice(const Value& x, int dim, const Dim& start, const Dim& end, const Dim& step = 1) {
  return x.graph()->call("slice", {x},
                         {{"dim", dim}, {"start", start}, {"end", end}, {"step", step}});
}
inline Value flip(const Value& x, std::vector<Dim> dims) {
  return x.graph()->call("flip", {x}, {{"dims", std::move(dims)}});
}
// Replaces dim1 and dim2 by a last dim with x[..., i, i + offset].
inline Value diagonal(const Value& x, const Dim& offset = 0, int dim1 = 0, int dim2 = 1) {
  return x.graph()->call("diagonal", {x}, {{"offset", offset}, {"dim1", dim1}, {"dim2", dim2}});
}
// Windows of `size` elements along dim, one every `step`; the window becomes a new last dim.
inline Value unfold(const Value& x, int dim, const Dim& size, const Dim& step) {
  return x.graph()->call("unfold", {x}, {{"dim", dim}, {"size", size}, {"step", step}});
}
// Joins tensors along dim. Returns an empty Value if xs is empty.
inline Value concat(const std::vector<Value>& xs, int dim = 0) {
  return xs.empty() ? Value() : xs.front().graph()->call("concat", xs, {{"dim", dim}});
}
// pads: [begin, end] of each dim; negative values crop.
inline Value pad(const Value& x, std::vector<Dim> pads, PadMode mode = PadMode::constant,
                 double value = 0) {
  return x.graph()->call("pad", {x}, {{"pads", std::move(pads)}, {"mode", mode}, {"value", value}});
}
// Sets elements above (tril) or below (triu) the diagonal of the last two dims to zero.
inline Value tril(const Value& x, const Dim& diagonal = 0) {
  return x.graph()->call("tril", {x}, {{"diagonal", diagonal}});
}
inline Value triu(const Value& x, const Dim& diagonal = 0) {
  return x.graph()->call("triu", {x}, {{"diagonal", diagonal}});
}
// Repeats the whole tensor repeats[d] times along dim d.
inline Value repeat(const Value& x, std::vector<Dim> repeats) {
  return x.graph()->call("repeat", {x}, {{"repeats", std::move(repeats)}});
}
// y[(i + shifts[k]) mod size] = x[i] along dims[k]. Empty dims: rolls the elements in row-major
// order.
inline Value roll(const Value& x, std::vector<Dim> shifts, std::vector<Dim> dims) {
  return x.graph()->call("roll", {x},
                         {{"shifts", Attr(std::move(shifts))}, {"dims", Attr(std::move(dims))}});
}
// Returns x with its elements in row-major order, without gaps or overlaps.
inline Value contiguous(const Value& x) { return x.graph()->call("contiguous", {x}); }
// y[i, j] = element storage_offset + i * stride[0] + j * stride[1] of x in row-major order.
inline Value as_strided(const Value& x, std::vector<Dim> size, std::vector<Dim> stride,
                        const Dim& storage_offset = 0) {
  return x.graph()->call("as_strided", {x},
                         {{"size", Attr(std::move(size))},
                          {"stride", Attr(std::move(stride))},
                          {"storage_offset", storage_offset}});
}

}  // namespace hg
