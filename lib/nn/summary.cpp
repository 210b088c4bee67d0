// SPDX-License-Identifier: Apache-2.0
// The table of a model's blocks.
#include <algorithm>
#include <array>

#include "lib/graph/border.h"
#include "lib/nn/lower.h"

namespace hg::nn {
namespace {

using Cells = std::array<std::string, 4>;

// 1234567 as 1,234,567.
std::string grouped(int64_t number) {
  std::string digits = str_cat(number);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

}  // namespace

std::string table_of(const Lowered& lowered) {
  std::vector<Cells> lines = {{"block", "layer", "output", "parameters"}};
  for (const SummaryRow& row : lowered.rows)
    lines.push_back({std::string(2 * row.depth, ' ') + row.path, row.layer, row.output,
                     grouped(row.parameters)});
  Cells rule;
  std::array<size_t, 4> widths{};
  for (const Cells& cells : lines)
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  for (size_t i = 0; i < rule.size(); ++i) rule[i].assign(widths[i], '-');
  lines.insert(lines.begin() + 1, rule);
  std::string out;
  for (const Cells& cells : lines) {
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string gap(widths[i] - cells[i].size(), ' ');
      out += i == 0 ? "" : "  ";
      out += i == 3 ? gap + cells[i] : cells[i] + gap;
    }
    out += "\n";
  }
  int64_t all = 0, trainable = 0;
  for (const NamedState& state : lowered.states) {
    if (!state.is_parameter) continue;
    all += state.shape.count();
    if (state.is_trainable) trainable += state.shape.count();
  }
  return out + str_cat(grouped(all), " parameters, ", grouped(trainable), " of them trainable\n");
}

Result<std::string> summary(const Block& model) {
  return or_no_memory([&]() -> Result<std::string> {
    HG_TRY_ASSIGN(const Lowered lowered, lower(model, {}));
    return table_of(lowered);
  });
}

}  // namespace hg::nn
