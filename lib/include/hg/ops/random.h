// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/random.cpp. The numbers depend only on the session's seed, the number of the
// run (in a loop, of the iteration), `stream`, and the index of the element. -1: a stream unique in
// the graph. Nodes with equal streams draw equal numbers.
#pragma once

#include <utility>

#include "hg/graph.h"

namespace hg {

// Uniform in [0, 1). Floats only.
inline Value rand(Graph& graph, Shape shape, DType dtype = f32, int64_t stream = -1) {
  return graph.call("rand", {},
                    {{"shape", Attr(std::move(shape))}, {"dtype", dtype}, {"stream", stream}});
}
// Normal, mean 0, standard deviation 1. Floats only.
inline Value randn(Graph& graph, Shape shape, DType dtype = f32, int64_t stream = -1) {
  return graph.call("randn", {},
                    {{"shape", Attr(std::move(shape))}, {"dtype", dtype}, {"stream", stream}});
}
// Returns x; if training, 0 with probability p and otherwise x / (1 - p). channels: one draw per
// [n, c]. A Trainer turns training on.
inline Value dropout(const Value& x, double p = 0.5, bool training = false, bool channels = false,
                     int64_t stream = -1) {
  return x.graph()->call(
      "dropout", {x},
      {{"p", p}, {"training", training}, {"channels", channels}, {"stream", stream}});
}

}  // namespace hg
