// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/op_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "converter/aten/table.h"
#include "hg/kernel.h"
#include "hg/op.h"
#include "hg_op_texts.h"

namespace hg::convert {
namespace {

// Returns how a device runs an op: names of kernels, as a view, by its expansion, or not at all.
std::string support(const Op& op, Device device) {
  std::string names;
  for (const KernelDef* kernel : Registry::built_in().kernels(op.name(), device))
    names += str_cat(names.empty() ? "" : ", ", kernel->name);
  if (!names.empty()) return names;
  if ((op.def.traits & kControl) != 0) return device == Device::cpu ? "subgraphs" : "";
  if (op.def.view != nullptr) return "view";
  return op.def.expand != nullptr ? "expansion" : "";
}

std::string_view text_of(std::string_view op) {
  for (const OpText& row : kOpTexts)
    if (row.op == op) return row.text;
  return {};
}

// The text as one line of a table's cell.
std::string cell(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '|') line += '\\';
    if (c != '\n' && c != ' ')
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  if (line.ends_with(' ')) line.pop_back();
  return line;
}

std::string gradient(const Op& op) {
  if ((op.def.traits & kNoGradient) != 0) return "none";
  if (op.def.grad != nullptr) return "rule";
  return op.def.expand != nullptr ? "expansion" : "";
}

}  // namespace

std::string op_table_text() {
  std::string out =
      "# Ops\n\n"
      "A device column names the kernels of the op, or says that the op runs as a view of its "
      "input or as an expansion into other ops. If it is empty, the device does not run the op. "
      "The gradient is a rule, the gradient of the expansion, or none if the result is not a "
      "smooth function of the inputs. If it is empty, gradients are rejected. Builds without "
      "OpenBLAS lack the kernels `lapack` and `openblas`.\n";
  for (const OpText& row : kOpTexts) {
    const Op* const op = Registry::built_in().find(row.op);
    if (row.op.empty()) {
      out += str_cat("\n## ", row.family, "\n\n", row.text, row.text.empty() ? "" : "\n\n",
                     "| op | result | CPU | Vulkan | gradient |\n|---|---|---|---|---|\n");
    } else if (op != nullptr) {
      out += str_cat("| `", op->def.signature, "` | ", cell(row.text), " | ",
                     support(*op, Device::cpu), " | ", support(*op, Device::vulkan), " | ",
                     gradient(*op), " |\n");
    }
  }
  out +=
      "\n## TorchScript\n\nThese TorchScript ops become nodes of the ops above. In-place and "
      "`out` forms are listed under the op that they are named after. A name without an overload "
      "covers all overloads. `complex::x` is `aten::x` of complex tensors.\n\n";
  for (std::string_view row : all_rows()) out += str_cat("- `", row, "`\n");
  return out;
}

std::string op_table_json() {
  // The only JSON type in hg_convert_command: each one costs seconds to compile.
  using Json = nlohmann::ordered_json;
  Json ops = Json::array();
  for (const Op* op : Registry::built_in().ops())
    ops.push_back({{"cpu", support(*op, Device::cpu)},
                   {"gradient", gradient(*op)},
                   {"op", op->name()},
                   {"signature", op->def.signature},
                   {"text", text_of(op->name())},
                   {"vulkan", support(*op, Device::vulkan)}});
  return Json{{"ops", ops}, {"torchscript", all_rows()}}.dump(1);
}

}  // namespace hg::convert
