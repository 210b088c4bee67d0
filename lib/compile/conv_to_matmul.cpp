// SPDX-License-Identifier: Apache-2.0
// Turns three kinds of convolutions into matrix products: those whose kernel covers the whole
// image, transposed ones of a single pixel, and their weight gradients. Each uses every weight
// element once per sample. For single pixels, the 1x1 kernel is already as fast.
#include <algorithm>

#include "lib/compile/passes.h"

namespace hg {
namespace {

using Replacement = std::optional<std::vector<Value>>;

bool all(std::span<const Dim> dims, int64_t number) {
  return std::all_of(dims.begin(), dims.end(), [&](const Dim& d) { return d == Dim(number); });
}

// The product of all dims from the third.
Dim pixels(const Shape& shape) {
  Dim count = 1;
  for (size_t i = 2; i < shape.size(); ++i) count = count * shape[i];
  return count;
}

bool same_image(const Shape& a, const Shape& b) {
  return a.size() == b.size() && a.size() > 2 &&
         std::equal(a.begin() + 2, a.end(), b.begin() + 2) && pixels(a).is_constant() &&
         pixels(a).constant() > 1;
}

bool is_one_pixel(const Shape& shape) { return all(std::span<const Dim>(shape).subspan(2), 1); }

// [rows, remaining elements]
Value as_matrix(const Value& x) {
  Dim rest = 1;
  for (int i = 1; i < x.rank(); ++i) rest = rest * x.dim(i);
  return x.graph()->call("reshape", {x}, {{"shape", Shape{x.dim(0), rest}}});
}

Value transposed(const Value& matrix) {
  return matrix.graph()->call("permute", {matrix}, {{"dims", std::vector<Dim>{1, 0}}});
}

Value product_of(Graph& g, const Node& node, const AttrReader& attrs, const Shape& shape) {
  const Value x = g.value(node.inputs[0]), other = g.value(node.inputs[1]);
  if (!all(attrs.integers("padding"), 0) || !all(attrs.integers("dilation"), 1) ||
      !(attrs.integer("groups") == Dim(1)))
    return {};
  if (node.op->name() == "conv_weight_grad") {  // x^T dy
    if (!same_image(x.shape(), shape) || !is_one_pixel(other.shape())) return {};
    return g.call("matmul", {transposed(as_matrix(other)), as_matrix(x)});
  }
  const Value bias =
      node.inputs.size() > 2 && node.inputs[2] != kNoValue ? g.value(node.inputs[2]) : Value();
  const bool has_residual = node.inputs.size() > 3 && node.inputs[3] != kNoValue;
  if (has_residual || attrs.string("activation") != "none") return {};
  if (!attrs.flag("transposed"))
    return same_image(x.shape(), other.shape()) && is_one_pixel(shape)
               ? g.call("linear", {as_matrix(x), as_matrix(other), bias})
               : Value();
  if (!is_one_pixel(x.shape()) || !same_image(other.shape(), shape)) return {};
  const Value y = g.call("matmul", {as_matrix(x), as_matrix(other)});
  if (!bias) return y;
  Shape each(shape.size(), Dim(1));
  each[1] = shape[1];
  return g.call("add", {g.call("reshape", {y}, {{"shape", shape}}),
                        g.call("reshape", {bias}, {{"shape", each}})});
}

}  // namespace

Status conv_to_matmul(Graph& graph, const CompileContext&) {
  return rewrite(graph, [&](const Node& found) -> Result<Replacement> {
    if (found.op->name() != "conv" && found.op->name() != "conv_weight_grad") return Replacement();
    const Node node = found;  // a copy: adding nodes moves the original
    const Shape shape = graph.value_info(node.outputs[0]).type.shape;
    graph.set_origin(node.origin);
    const Value y = product_of(graph, node, AttrReader(node.op, node.attrs), shape);
    if (!y) return Replacement();
    return Replacement({graph.call("reshape", {y}, {{"shape", shape}})});
  });
}

}  // namespace hg
