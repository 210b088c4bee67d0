// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/movement.cpp and copy.cpp: elements moved; hg/ops/index.h, which
// comes with it, picks and puts them. hg/ops/shape.h has torch's words
// for shapes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hg/graph.h"
#include "hg/ops/index.h"
#include "hg/words.h"

namespace hg {

// x's elements in row-major order in another shape; no -1.
inline Value reshape(const Value& x, Shape shape) {
  return x.graph()->call("reshape", {x}, {{"shape", std::move(shape)}});
}
// x as a constant for gradients: they are zero beyond.
inline Value detach(const Value& x) { return x.graph()->call("detach", {x}); }
// The bits of x as another dtype whose elements have as many bytes; bool only of bool.
inline Value view_dtype(const Value& x, DType dtype) {
  return x.graph()->call("view_dtype", {x}, {{"dtype", dtype}});
}
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
// y[(i + shifts[k]) mod size] = x[i] along dims[k]; without dims, of the elements in row-major
// order.
inline Value roll(const Value& x, std::vector<Dim> shifts, std::vector<Dim> dims) {
  return x.graph()->call("roll", {x},
                         {{"shifts", Attr(std::move(shifts))}, {"dims", Attr(std::move(dims))}});
}
// x, of which every element has a place of its own in row-major order.
inline Value contiguous(const Value& x) { return x.graph()->call("contiguous", {x}); }
// y[i, j] = x's elements in row-major order at storage_offset + i stride[0] + j stride[1].
inline Value as_strided(const Value& x, std::vector<Dim> size, std::vector<Dim> stride,
                        const Dim& storage_offset = 0) {
  return x.graph()->call("as_strided", {x},
                         {{"size", Attr(std::move(size))},
                          {"stride", Attr(std::move(stride))},
                          {"storage_offset", storage_offset}});
}

}  // namespace hg
