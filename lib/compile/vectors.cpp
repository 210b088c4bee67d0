// SPDX-License-Identifier: Apache-2.0
// Singular values and eigenvalues whose vectors nothing reads.
#include "lib/compile/passes.h"

namespace hg {

Status drop_vectors(Graph& graph, const CompileContext&) {
  const std::vector<int> uses = use_counts(graph);
  return rewrite(graph, [&](const Node& node) -> Result<std::optional<std::vector<Value>>> {
    const bool is_svd = node.op->name() == "svd";
    if (!is_svd && node.op->name() != "eigh") return std::optional<std::vector<Value>>();
    const size_t kept = is_svd ? 1 : 0;
    std::vector<Value> values;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId id = node.outputs[i];
      if (i != kept && uses[static_cast<size_t>(id)] > 0)
        return std::optional<std::vector<Value>>();
      values.push_back(graph.value(id));
    }
    NamedAttrs attrs;
    if (!is_svd) attrs.push_back({"upper", AttrReader(node.op, node.attrs).flag("upper")});
    values[kept] =
        graph.call(is_svd ? "svdvals" : "eigvalsh", {graph.value(node.inputs[0])}, attrs);
    return std::optional(std::move(values));
  });
}

}  // namespace hg
