// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/unsupported.h"

#include <algorithm>
#include <map>

#include "converter/aten/table.h"
#include "converter/check/wrong_node.h"

namespace hg::convert {

std::string list_unsupported(const std::vector<Unsupported>& all) {
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  for (const Unsupported& each : all) counts[{each.op, each.reason}] += each.count;
  std::string out;
  for (const Unsupported& each : all) {
    auto entry = counts.find({each.op, each.reason});
    if (entry == counts.end()) continue;
    out += str_cat(out.empty() ? "" : "; ", each.op);
    if (entry->second > 1) out += str_cat(" (", entry->second, "x), first");
    out += str_cat(describe_origin(each.origin), ": ", each.reason);
    if (!each.suggestion.empty()) out += str_cat(" (", each.suggestion, ")");
    counts.erase(entry);
  }
  return out;
}

bool is_call(const Unsupported& each) {
  const std::string& op = each.op;
  const size_t dot = op.find('.');
  return !each.suggestion.empty() ||
         find_row(op.substr(0, dot), dot == std::string::npos ? "" : op.substr(dot + 1)) != nullptr;
}

void suggest(std::vector<Unsupported>& all, const std::vector<std::string>& unknown_ops) {
  for (Unsupported& each : all) {
    if (is_call(each)) continue;
    bool custom = std::find(unknown_ops.begin(), unknown_ops.end(), each.op) != unknown_ops.end();
    each.suggestion = custom
                          ? str_cat("a custom op: declare it with --custom '",
                                    each.op.substr(0, each.op.find("::")), ".",
                                    each.op.substr(each.op.find("::") + 2),
                                    "(x, ...) -> like x' and let the application register it, or "
                                    "write it with PyTorch's own ops")
                          : "compute it outside of the model, or from ops that "
                            "hg-convert --list-ops names";
  }
}

}  // namespace hg::convert
