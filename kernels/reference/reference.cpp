// SPDX-License-Identifier: Apache-2.0
// All reference rows by name.
#include "kernels/reference/reference.h"

#define HG_TABLE(stem)                        \
  namespace hg::reference::rows {             \
  std::span<const hg::reference::Row> stem(); \
  }
#include "hg_reference_table.inc"
#undef HG_TABLE

namespace hg::reference {

const Row* find(std::string_view op) {
#define HG_TABLE(stem)                \
  for (const Row& row : rows::stem()) \
    if (row.op == op) return &row;
#include "hg_reference_table.inc"
#undef HG_TABLE
  return nullptr;
}

}  // namespace hg::reference
