// SPDX-License-Identifier: Apache-2.0
// Code shared by the rows of ONNX Runtime's own ops (com.microsoft) and ONNX's ops.
#pragma once

#include "converter/onnx/node.h"

namespace hg::convert::onnx {

// ONNX's Gemm of the node's inputs with its attributes, and Conv of x with the node's attributes.
// The bias may be missing.
Value gemm_of(Node& n);
Value convolution_of(Node& n, Value x, const Value& weight, const Value& bias);
// ONNX's AveragePool and MaxPool of x, [n, c, spatial...], with the node's attributes.
Value average_pooled(Node& n, const Value& x);
Value max_pooled(Node& n, Value x);

// Applies the activation that a fused op names, with its parameters in attribute order.
Value activated(Node& n, const Value& x, const std::string& name, const std::vector<double>& given);
// x * sigmoid(alpha * x)
Value swish(const Value& x, double alpha);

// [batch, time, heads * size] -> [batch, heads, time, size], and back.
Value heads_apart(const Value& x, const Dim& heads);
Value heads_together(const Value& x);
// Repeats each head of keys or values once for each query head that uses it.
Value heads_repeated(const Value& x, const Dim& times);
// Rotates the first `size` elements of the last dim of x [batch, heads, time, size'] by the angles
// of cos and sin, which broadcast to halves of these elements.
Value rotated(const Value& x, const Value& cos, const Value& sin, const Dim& size,
              bool interleaved);
// Returns 0, 1, ... size - 1 as i64 in the given shape.
Value places(Graph& g, const Dim& size, Shape shape);
// Looks up elements of a table [n, ...] by an index of any shape.
Value looked_up(const Value& table, const Value& index);
// Returns the rows of a table of angles [positions, half] for positions [batch or 1, time], as
// [batch or 1, 1, time, half].
Value angles(const Value& cache, const Value& at);
// Returns the node of the graph that computes a value; null for inputs, states and kNoValue.
const hg::Node* maker_of(const Graph& graph, ValueId id);
// Returns the attribute 'scale'; nothing if it is missing or 0.
std::optional<double> scale_attribute(Node& n);

// The lowest and highest level of a dtype for quantized tensors; other dtypes are rejected.
struct Limits {
  double low = 0, high = 0;
};
Limits limits_of(Node& n, DType dtype);
// Returns round(ratio) + zero, clamped to the limits of the dtype. ratio is x / scale; zero may be
// missing.
Value quantized(Node& n, const Value& ratio, const Value& zero, DType dtype);
Value quantized(const Value& ratio, const Value& zero, DType dtype, const Limits& limits);
// Returns an input that is a scale. Rejects scales that are not finite, which calibration with
// infinite values writes.
Value scale_of(Node& n, int i);
// Reshapes a scale or a zero point, one number or one per index of the axis, to broadcast to x.
Value placed_along(const Value& v, const Value& x, int axis);
// DynamicQuantizeLinear: quantizes x to u8 with a scale and a zero point from its range.
struct DynamicallyQuantized {
  Value y, scale, zero;  // u8, f32[], u8[]
};
DynamicallyQuantized dynamically_quantized(Node& n, const Value& x);

// Applies the post_transform of an ai.onnx.ml op to scores [rows, classes].
Value post_transformed(Node& n, const Value& scores, const std::string& name);

}  // namespace hg::convert::onnx
