// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/random.cpp: random numbers, which depend on the session's seed, the number of
// the run (in a loop, of the round), `stream` and the element's index alone. -1: a stream of its
// own in its graph; nodes of equal streams draw equal numbers.
#pragma once

#include <utility>

#include "hg/graph.h"

namespace hg {

// Uniform in [0, 1). Floats only.
inline Value rand(Graph& graph, Shape shape, DType dtype = f32, int64_t stream = -1) {
  return graph.call("rand", {},
                    {{"shape", Attr(std::move(shape))}, {"dtype", dtype}, {"stream", stream}});
}
// Normal, with mean 0 and standard deviation 1. Floats only.
inline Value randn(Graph& graph, Shape shape, DType dtype = f32, int64_t stream = -1) {
  return graph.call("randn", {},
                    {{"shape", Attr(std::move(shape))}, {"dtype", dtype}, {"stream", stream}});
}
// x; with training, 0 with probability p and else x / (1 - p). channels: one draw for each [n, c].
// A Trainer turns training on.
inline Value dropout(const Value& x, double p = 0.5, bool training = false, bool channels = false,
                     int64_t stream = -1) {
  return x.graph()->call(
      "dropout", {x},
      {{"p", p}, {"training", training}, {"channels", channels}, {"stream", stream}});
}

}  // namespace hg
