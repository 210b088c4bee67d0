// SPDX-License-Identifier: Apache-2.0
// Finds the values that have a gradient with respect to others.
#pragma once

#include <set>

#include "hg/graph.h"
#include "hg/op.h"

namespace hg {

inline bool has_gradient(DType dtype) { return is_float(dtype) || is_complex(dtype); }

// Adds the results of the nodes [first, last) that depend on `depends`, except through ops that
// stop gradients.
inline void add_dependents(const Graph& graph, size_t first, size_t last,
                           std::set<ValueId>& depends) {
  for (size_t i = first; i < last; ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op->def.traits & kNoGradient) continue;
    bool any = false;
    for (const ValueId id : node.inputs) any |= depends.count(id) > 0;
    if (!any) continue;
    for (const ValueId id : node.outputs)
      if (has_gradient(graph.value_info(id).type.dtype)) depends.insert(id);
  }
}

}  // namespace hg
