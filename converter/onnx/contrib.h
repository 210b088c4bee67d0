// SPDX-License-Identifier: Apache-2.0
// Code shared by the rows of ONNX Runtime's own ops (com.microsoft) and ONNX's ops.
#pragma once

#include "converter/onnx/node.h"

namespace hg::convert::onnx {

// ONNX's Gemm of the node's inputs and attributes; Conv of x with the node's attributes; bias may
// be missing.
Value gemm_of(Node& n);
Value convolution_of(Node& n, Value x, const Value& weight, const Value& bias);
// ONNX's AveragePool and MaxPool of x, [n, c, spatial...], by the node's attributes.
Value average_pooled(Node& n, const Value& x);
Value max_pooled(Node& n, Value x);

// The activation that a fused op names, with its parameters in the order of the op's attributes.
Value activated(Node& n, const Value& x, const std::string& name, const std::vector<double>& given);

// [batch, time, heads * size] -> [batch, heads, time, size], and back.
Value heads_apart(const Value& x, const Dim& heads);
Value heads_together(const Value& x);
// Heads of keys and values once for each head of the queries that they serve.
Value heads_repeated(const Value& x, const Dim& times);
// The first `size` elements of the last dim of x [batch, heads, time, size'] turned by the angles
// of cos and sin, which broadcast to halves of them.
Value rotated(const Value& x, const Value& cos, const Value& sin, const Dim& size,
              bool interleaved);
// A size as a number of the graph, i64[].
Value size_value(Graph& g, const Dim& size);
// 0, 1, ... below size, i64 in the given shape.
Value places(Graph& g, const Dim& size, Shape shape);
// Elements of a table [n, ...] at the places of an index of any shape.
Value looked_up(const Value& table, const Value& index);

// The least and the largest level of a dtype that tensors are quantized to; others are refused.
struct Limits {
  double low = 0, high = 0;
};
Limits limits_of(Node& n, DType dtype);
// round(x / scale) + zero, within the limits of the dtype; zero may be missing.
Value quantized(Node& n, const Value& ratio, const Value& zero, DType dtype);
Value quantized(const Value& ratio, const Value& zero, DType dtype, const Limits& limits);
// An input that is a scale; one that is not finite, as calibration with infinite values writes it,
// is refused.
Value scale_of(Node& n, int i);
// A scale or a zero point, one number or one for each place along the axis, as it broadcasts to x.
Value placed_along(const Value& v, const Value& x, int axis);
// u8 numbers of x with a scale and a zero point of its range: DynamicQuantizeLinear.
struct DynamicallyQuantized {
  Value y, scale, zero;  // u8, f32[], u8[]
};
DynamicallyQuantized dynamically_quantized(Node& n, const Value& x);

// What ops of ai.onnx.ml do with scores [rows, classes] at last.
Value post_transformed(Node& n, const Value& scores, const std::string& name);

}  // namespace hg::convert::onnx
