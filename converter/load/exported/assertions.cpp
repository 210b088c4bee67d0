// SPDX-License-Identifier: Apache-2.0
// Assumptions of an exported program in TorchScript's form: an `if` with one branch that raises an
// exception. An assumption about sizes becomes a guard of the graph; a violated assumption about
// data fails the run.
#include "converter/core/failure.h"
#include "converter/load/exported/graph.h"

namespace hg::convert {

using Json = nlohmann::json;

void ExportedGraph::require(Value condition, const std::string& message, ScriptBlock& block) {
  if (of_layout_.contains(condition.id)) return;  // results do not depend on memory layout
  if (condition.type == "Tensor")
    condition = emit({"aten::Bool", "Tensor", {"a"}, {condition}, {"bool"}}, block)[0];
  if (condition.type == "int")
    condition = compute("_operator.ne", {condition, constant(0, "int", block)}, "bool", block);
  if (condition.type != "bool")
    throw Refusal{"it asserts a value that is neither a bool nor a number", ""};
  ScriptBlock fine, raising;
  const Value said = constant(message, "str", raising);
  emit({"prim::RaiseException", "", {}, {said}, {}}, raising);
  Call call{"prim::If", "", {}, {condition}, {}};
  call.blocks = {std::move(fine), std::move(raising)};
  emit(std::move(call), block);
}

bool ExportedGraph::read_assertion(const Json& node, std::string_view kind, Scope& scope,
                                   ScriptBlock& block) {
  const bool range =
      kind == "aten::sym_constrain_range" || kind == "aten::sym_constrain_range_for_size";
  const bool truth = kind == "aten::_assert_scalar" || kind == "aten::_assert_async" ||
                     kind == "aten::_functional_assert_async";
  // Dtypes are those of the file's own inputs.
  const bool metadata = kind == "aten::_assert_tensor_metadata";
  if (kind == "aten::_linalg_check_errors") return true;  // the ops before fail themselves
  if (!range && !truth && !metadata) return false;
  Value subject, smallest, largest;
  std::string message = str_cat("the program's ", kind.substr(6), " fails");
  for (const Json& input : node.at("inputs")) {
    const std::string name = input.at("name").get<std::string>();
    const Json& given = input.at("arg");
    if (name == "self" || name == "size") subject = argument(given, scope, block);
    if (given.contains("as_none")) continue;
    if (name == "min") smallest = argument(given, scope, block);
    if (name == "max") largest = argument(given, scope, block);
    if (name == "assert_msg" && given.contains("as_string"))
      message = given.at("as_string").get<std::string>();
  }
  if (truth) require(subject, message, block);
  if (range && smallest.id >= 0)
    require(compute("_operator.ge", {subject, smallest}, "bool", block), message, block);
  if (range && largest.id >= 0)
    require(compute("_operator.le", {subject, largest}, "bool", block), message, block);
  const Json& outputs = node.at("outputs");
  if (!outputs.empty()) bind(outputs, {constant(Item(), "NoneType", block)}, scope, block);
  return true;
}

}  // namespace hg::convert
