// SPDX-License-Identifier: Apache-2.0
#include "lib/generate/tables.h"

#include <algorithm>
#include <vector>

#include "hg/op.h"

namespace hg {

int64_t rows_of_table(const Graph& graph, ValueId indices) {
  std::vector<ValueId> same = {indices};
  int64_t rows = 0;
  for (const Node& node : graph.nodes()) {
    const auto reads = [&](size_t input) {
      return input < node.inputs.size() &&
             std::find(same.begin(), same.end(), node.inputs[input]) != same.end();
    };
    if (node.op->name() == "cast" && reads(0)) same.push_back(node.outputs[0]);
    if (node.op->name() != "embedding" || !reads(1)) continue;
    const Dim& size = graph.value_info(node.inputs[0]).type.shape[0];
    if (size.is_constant()) rows = rows == 0 ? size.constant() : std::min(rows, size.constant());
  }
  return rows;
}

}  // namespace hg
