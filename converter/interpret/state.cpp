// SPDX-License-Identifier: Apache-2.0
#include "converter/interpret/state.h"

#include "lib/graph/condition.h"

namespace hg::convert {

void ImportReport::reject(const ScriptNode& node, const Refusal& refusal) {
  const std::string op = node.overload.empty() ? node.kind : str_cat(node.kind, ".", node.overload);
  for (Unsupported& other : result_.unsupported)
    if (other.op == op && other.origin == node.origin && other.reason == refusal.reason) {
      ++other.count;
      return;
    }
  result_.unsupported.push_back({op, 1, node.origin, refusal.reason, refusal.suggestion});
}

std::optional<bool> KnownConditions::find(ScriptId data) const {
  for (const auto& [known, value] : data_)
    if (known == data) return value;
  return std::nullopt;
}

std::optional<bool> KnownConditions::find(const Scalar& sizes) const {
  if (sizes.is_constant()) return sizes.as_double() != 0;
  const Dim opposite = negation(sizes).top;
  for (const auto& [known, value] : sizes_) {
    if (known == sizes.top) return value;
    if (known == opposite) return !value;
  }
  return std::nullopt;
}

}  // namespace hg::convert
