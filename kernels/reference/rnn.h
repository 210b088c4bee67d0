// SPDX-License-Identifier: Apache-2.0
// Recurrent layers, for ops that differ in how they store the weight.
#pragma once

#include "kernels/reference/reference.h"
#include "lib/table/cell.h"

namespace hg::reference {

struct Scan {
  Cell cell = Cell::lstm;
  const Array &gates, &h0, &weight;
  const Array *c0 = nullptr, *bias = nullptr, *projection = nullptr;  // null: not given
  bool reverse = false;
};

// out: y, h and, of lstm, c.
void scan(const Scan &s, std::span<Array> out);

}  // namespace hg::reference
