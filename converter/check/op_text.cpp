// SPDX-License-Identifier: Apache-2.0
#include "converter/check/op_text.h"

#include <cstdint>
#include <optional>
#include <unordered_map>

namespace hg::convert {
namespace {

class OpTexts {
 public:
  explicit OpTexts(const ScriptProgram& program) { collect(program.body); }

  std::string of(const ScriptNode& node) const {
    // The parts of a list belong to the op that made it.
    if (node.kind.starts_with("prim::") && !node.inputs.empty())
      if (const auto made = makers_.find(node.inputs[0]); made != makers_.end())
        if (!made->second->kind.starts_with("prim::")) return of(*made->second);
    if (node.kind == "aten::slice") return slice(node);
    const std::string name = node.kind.substr(node.kind.rfind(':') + 1);
    std::string numbers;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool named = i < node.argument_names.size();
      if (named && (node.argument_names[i] == "dim" || node.argument_names[i] == "self")) continue;
      if (const auto number = number_of(node.inputs[i]))
        numbers += str_cat(numbers.empty() ? "" : ", ", *number);
    }
    return numbers.empty() ? name : str_cat(name, "(", numbers, ")");
  }

 private:
  void collect(const ScriptBlock& block) {
    for (const ScriptNode& node : block.nodes) {
      for (const ScriptId id : node.outputs) makers_[id] = &node;
      for (const ScriptBlock& inner : node.blocks) collect(inner);
    }
  }

  std::optional<int64_t> number_of(ScriptId id) const {
    const auto maker = makers_.find(id);
    if (maker == makers_.end() || maker->second->kind != "prim::Constant") return std::nullopt;
    const auto* number = std::get_if<Dim>(&maker->second->constant.value);
    if (number == nullptr || !number->is_constant()) return std::nullopt;
    return number->constant();
  }

  std::string slice(const ScriptNode& node) const {
    const auto bound = [&](size_t i, int64_t open) -> std::string {
      if (i >= node.inputs.size()) return "";
      const auto maker = makers_.find(node.inputs[i]);
      const bool is_constant = maker != makers_.end() && maker->second->kind == "prim::Constant";
      const auto number = number_of(node.inputs[i]);
      if (number) return *number == open ? "" : str_cat(*number);
      return is_constant ? "" : "...";  // None
    };
    const std::string step = bound(4, 1);
    return str_cat("[", bound(2, 0), ":", bound(3, INT64_MAX), step.empty() ? "" : ":", step, "]");
  }

  std::unordered_map<ScriptId, const ScriptNode*> makers_;
};

}  // namespace

std::map<ValueId, std::string> texts_of_ops(const ScriptProgram& program,
                                            std::span<const Executed> trace) {
  const OpTexts texts(program);
  std::map<ValueId, std::string> of;
  for (const Executed& each : trace)
    for (const ValueId id : each.outputs)
      if (id != kNoValue) of.try_emplace(id, texts.of(*each.node));
  return of;
}

}  // namespace hg::convert
