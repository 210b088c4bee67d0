// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/factory.cpp: tensors computed from attributes. Numbers are rounded to
// `dtype`.
#pragma once

#include "hg/graph.h"

namespace hg {

inline Value full(Graph& graph, Shape shape, double value, DType dtype = f32) {
  return graph.call("full", {},
                    {{"shape", Attr(std::move(shape))}, {"value", value}, {"dtype", dtype}});
}
inline Value zeros(Graph& graph, Shape shape, DType dtype = f32) {
  return full(graph, std::move(shape), 0, dtype);
}
inline Value ones(Graph& graph, Shape shape, DType dtype = f32) {
  return full(graph, std::move(shape), 1, dtype);
}
// start, start + step, ..., excluding end: [ceil((end - start) / step)]. Not for bool.
inline Value arange(Graph& graph, Dim start, Dim end, Dim step = 1, DType dtype = i64) {
  return graph.call("arange", {},
                    {{"start", start}, {"end", end}, {"step", step}, {"dtype", dtype}});
}
// 0, 1, ..., end - 1 as i64.
inline Value arange(Graph& graph, Dim end) { return graph.call("arange", {}, {{"end", end}}); }
// `steps` evenly spaced numbers from start to end, both included. Not for bool.
inline Value linspace(Graph& graph, double start, double end, Dim steps, DType dtype = f32) {
  return graph.call("linspace", {},
                    {{"start", start}, {"end", end}, {"steps", steps}, {"dtype", dtype}});
}
// [n, m] with ones on the diagonal.
inline Value eye(Graph& graph, Dim n, Dim m, DType dtype = f32) {
  return graph.call("eye", {}, {{"n", n}, {"m", m}, {"dtype", dtype}});
}

}  // namespace hg
