// SPDX-License-Identifier: Apache-2.0
#include "converter/load/exported/unused_numbers.h"

#include <algorithm>
#include <unordered_set>

namespace hg::convert {
namespace {

using Used = std::unordered_set<ScriptId>;

bool only_makes_numbers(const ScriptNode& node) {
  if (!node.blocks.empty() || !node.trouble.empty()) return false;
  if (node.kind == "prim::Constant" || node.kind == "prim::ListConstruct") return true;
  // torch.tensor([n, 2]) leaves this op behind. Programs cannot express its result, a dtype.
  if (node.kind == "aten::promote_types") return true;
  return (node.kind.starts_with("aten::") || node.kind.starts_with("prim::")) &&
         !node.outputs.empty() &&
         std::all_of(node.output_types.begin(), node.output_types.end(),
                     [](const std::string& type) {
                       return type == "int" || type == "float" || type == "bool";
                     });
}

void drop(ScriptBlock& block, Used& used) {
  used.insert(block.outputs.begin(), block.outputs.end());
  std::vector<ScriptNode> kept;
  for (auto node = block.nodes.rbegin(); node != block.nodes.rend(); ++node) {
    if (only_makes_numbers(*node) && std::none_of(node->outputs.begin(), node->outputs.end(),
                                                  [&](ScriptId id) { return used.contains(id); }))
      continue;
    used.insert(node->inputs.begin(), node->inputs.end());
    for (ScriptBlock& inner : node->blocks) drop(inner, used);
    kept.push_back(std::move(*node));
  }
  std::reverse(kept.begin(), kept.end());
  block.nodes = std::move(kept);
}

}  // namespace

void drop_unused_numbers(ScriptBlock& block) {
  Used used;
  drop(block, used);
}

}  // namespace hg::convert
