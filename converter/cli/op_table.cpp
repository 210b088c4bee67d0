// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/op_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "converter/aten/table.h"
#include "hg/kernel.h"
#include "hg/op.h"

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

std::string gradient(const Op& op) {
  if ((op.def.traits & kNoGradient) != 0) return "none";
  if (op.def.grad != nullptr) return "rule";
  return op.def.expand != nullptr ? "expansion" : "";
}

}  // namespace

std::string op_table_text() {
  std::string out =
      "# Ops\n\n"
      "Printed by `hg-convert --list-ops`: after a change of ops, `hg-convert --list-ops > "
      "docs/ops.md`.\n\n"
      "A device runs an op with the kernels that are named, as a view of its input, as its "
      "expansion into other ops, or, where nothing stands, not at all. Its gradient is a rule, "
      "that of the expansion, none, where a result is no smooth function of the inputs, or, where "
      "nothing stands, refused. The kernels lapack and openblas are those of builds that have "
      "OpenBLAS.\n\n"
      "| op | CPU | Vulkan | gradient |\n|---|---|---|---|\n";
  for (const Op* op : Registry::built_in().ops())
    out += str_cat("| `", op->def.signature, "` | ", support(*op, Device::cpu), " | ",
                   support(*op, Device::vulkan), " | ", gradient(*op), " |\n");
  out +=
      "\n## TorchScript\n\nWhat becomes nodes of these ops. In-place and `out` forms count to "
      "the op that they are named after; an op without an overload stands for all of them; "
      "`complex::x` is `aten::x` of complex "
      "tensors.\n\n";
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
                   {"vulkan", support(*op, Device::vulkan)}});
  return Json{{"ops", ops}, {"torchscript", all_rows()}}.dump(1);
}

}  // namespace hg::convert
