// SPDX-License-Identifier: Apache-2.0
#include "lib/train/relu_late.h"

#include "hg/ops/activation.h"
#include "lib/graph/rewrite.h"

namespace hg {

Status relu_behind_max_pool(Graph& graph) {
  const std::vector<int> uses = use_counts(graph);
  return rewrite(graph, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
    std::optional<std::vector<Value>> pooled;
    if (node.op->name() != "max_pool") return pooled;
    const ValueInfo& x = graph.value_info(node.inputs[0]);
    const Node* maker = x.node < 0 ? nullptr : &graph.nodes()[x.node];
    if (maker == nullptr || maker->op->name() != "relu" || uses[node.inputs[0]] != 1) return pooled;
    pooled = {relu(graph.call("max_pool", {graph.value(maker->inputs[0])}, named_attrs(node)))};
    return pooled;
  });
}

}  // namespace hg
