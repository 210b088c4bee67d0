// SPDX-License-Identifier: Apache-2.0
// A constant with the type of another value: the seed of gradients.
#pragma once

#include "hg/graph.h"

namespace hg {

inline Value filled(Graph& graph, double value, const Value& like) {
  if (is_complex(like.dtype())) {
    Shape pairs = like.shape();
    pairs.emplace_back(2);
    const Value part = graph.scalar(value, real_of(like.dtype()));
    return graph.call("view_as_complex", {graph.call("expand", {part}, {{"shape", pairs}})});
  }
  return graph.call("expand", {graph.scalar(value, like.dtype())}, {{"shape", like.shape()}});
}

}  // namespace hg
