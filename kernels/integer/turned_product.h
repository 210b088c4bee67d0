// SPDX-License-Identifier: Apache-2.0
// Products with a constant b as y^T = b^T a^T, for instruction sets without VNNI. b^T takes
// the role of a convolution's weights: its rows are packed as quads whose sums do not saturate,
// with additional quads where needed. The rows of a are packed as columns of quads in each run.
#pragma once

#include <vector>

#include "kernels/integer/integer_operands.h"

namespace hg::kernels {

struct TurnedProduct {
  int64_t rows = 0, n = 0, k = 0;  // rows of all matrices of a
  const IntegerTable* table = nullptr;
  std::vector<int32_t> offset;  // of the quads of a panel
  std::vector<int64_t> first;   // row of b^T of each block, and the end
  int64_t tiles = 1, tile = 0;  // of the rows of a; rows of the largest
  int64_t lanes = 1, starts_at = 0, panels_at = 0;

  explicit operator bool() const { return table != nullptr; }
  int64_t quads() const { return quads_of(k); }
  int64_t panels() const { return ceil_div(rows, int64_t{table->nr}); }
  int64_t panel_bytes() const { return quads() * table->nr * 4; }
  // Of a lane: results and sums of a group of rows of b^T.
  int64_t slot_bytes() const;
  int64_t packed_bytes() const;
  int64_t workspace() const;
};

// Empty if the product is not supported.
TurnedProduct turned_product(const PrepareContext& c);

// Packs b [k, n] into memory of zeros. Returns false, and writes nothing, if the weights need so
// many additional quads that pairs are faster.
bool pack_turned(const TurnedProduct& g, const Tensor& b, const ZeroPoints& zeros, char* to);

void run_turned(const RunContext& c, const TurnedProduct& g, const char* packed);

}  // namespace hg::kernels
