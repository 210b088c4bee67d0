// SPDX-License-Identifier: Apache-2.0
#include "converter/aten/table.h"

#include <algorithm>

#include "converter/containers/container_ops.h"
#include "converter/script/script_ops.h"

namespace hg::convert {

namespace rows {
#define HG_TABLE(stem) std::span<const Row> stem();
#include "hg_convert_rows_table.inc"
#undef HG_TABLE
}  // namespace rows

namespace {

// All rows, sorted by name once.
const std::vector<const Row*>& sorted_rows() {
  static const std::vector<const Row*> kRows = [] {
    std::vector<const Row*> all;
    const std::span<const Row> tables[] = {
#define HG_TABLE(stem) rows::stem(),
#include "hg_convert_rows_table.inc"
#undef HG_TABLE
        number_rows(), comparison_rows(), conversion_rows(), container_rows(),
        list_rows(),   dict_rows(),       text_rows(),       text_method_rows(),
        query_rows(),  object_rows(),     nested_rows(),
    };
    for (const auto& table : tables)
      for (const Row& row : table) all.push_back(&row);
    std::stable_sort(all.begin(), all.end(),
                     [](const Row* a, const Row* b) { return a->op < b->op; });
    return all;
  }();
  return kRows;
}

}  // namespace

const Row* row_named(std::string_view op) {
  const auto& all = sorted_rows();
  const auto at = std::lower_bound(all.begin(), all.end(), op,
                                   [](const Row* row, std::string_view n) { return row->op < n; });
  return at != all.end() && (*at)->op == op ? *at : nullptr;
}

const Row* find_row(std::string_view kind, std::string_view overload) {
  const Row* row = overload.empty() ? nullptr : row_named(str_cat(kind, ".", overload));
  if (row == nullptr || row->run == nullptr) row = row_named(kind);
  return row != nullptr && row->run != nullptr ? row : nullptr;
}

std::vector<std::string> all_rows() {
  std::vector<std::string> names;
  for (const Row* row : sorted_rows()) {
    if (row->run != nullptr) names.emplace_back(row->op);
    if (row->complex.rule == OnComplex::function)
      names.push_back(str_cat("complex", row->op.substr(row->op.find("::"))));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::span<const Row* const> every_row() { return sorted_rows(); }

}  // namespace hg::convert
