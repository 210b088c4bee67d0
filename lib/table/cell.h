// SPDX-License-Identifier: Apache-2.0
// The cells of recurrent layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hg {

enum class Cell : uint8_t { lstm, gru, tanh, relu };  // tanh and relu: plain layers
inline constexpr std::string_view kCellNames[] = {"lstm", "gru", "tanh", "relu"};

constexpr int gate_count(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

inline std::optional<Cell> parse_cell(std::string_view name) {
  for (int i = 0; i < 4; ++i)
    if (kCellNames[i] == name) return static_cast<Cell>(i);
  return {};
}

}  // namespace hg
