// SPDX-License-Identifier: Apache-2.0
// The rows of a table that this build contains. Each table is filtered by chosen_rows, so that
// functions of omitted rows are not even compiled into the archive.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>

#include "hg/kernel.h"
#include "hg/op.h"
#include "lib/table/holds.h"

namespace hg {

// Without training, ops that only gradients create are omitted; their names identify them.
constexpr bool holds_row(std::string_view op) {
  return holds_op(op) && (kHoldsGradients || !op.ends_with("_grad"));
}
constexpr bool holds_row(const OpDef& row) {
  return holds_row(row.signature.substr(0, row.signature.find('(')));
}
// In addition to the kernels that plans use: fallbacks, which other sizes may need, and steps of
// programs.
constexpr bool holds_row(const KernelDef& row) {
  return holds_row(row.op) &&
         (holds_kernel(row.op, row.name) || row.accepts == nullptr || row.in_programs);
}

template <const auto& kRows>
constexpr auto select_rows() {
  using Row = std::remove_cvref_t<decltype(kRows[0])>;
  constexpr size_t count = [] {
    size_t held = 0;
    for (const Row& row : kRows) held += holds_row(row);
    return held;
  }();
  std::array<Row, count> rows{};
  size_t next = 0;
  for (const Row& row : kRows) {
    if (!holds_row(row)) continue;
    rows[next] = row;
    if constexpr (std::is_same_v<Row, OpDef> && !kHoldsGradients) rows[next].grad = nullptr;
    ++next;
  }
  return rows;
}

template <const auto& kRows>
inline constexpr auto kSelectedRows = select_rows<kRows>();

template <const auto& kRows>
constexpr auto chosen_rows() {
  using Row = std::remove_cvref_t<decltype(kRows[0])>;
  if constexpr (kHoldsAll && kHoldsGradients)
    return std::span<const Row>(kRows);
  else
    return std::span<const Row>(kSelectedRows<kRows>);
}

}  // namespace hg
