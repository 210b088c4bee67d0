// SPDX-License-Identifier: Apache-2.0
// Products of rows where they lie with packed columns, as convolutions with channels last need
// them.
#pragma once

#include <cstdint>

namespace hg::kernels {

// y[place, columns] = the sum over k of x[place, k] weights[k, columns], for `count` places from
// `first` on. Places form lines of `pitch`, of which the first `width` have a result. A row
// consists of steps of kStep bytes: bytes or bf16. Whole steps of at least 16 places from place 0
// on must be readable.
struct RowProduct {
  static constexpr int kColumns = 32, kStep = 64;
  // In packed weights, [step][16 words][kColumns], the word of 32 bits that meets word `word` of a
  // row.
  static int64_t weight_at(int64_t word, int64_t column) { return word * kColumns + column; }

  int64_t first = 0, count = 0, pitch = 0, width = 0;
  const uint8_t* x = nullptr;  // of place 0
  int64_t x_row = 0;           // bytes, as are offsets
  int64_t steps = 0;
  const int64_t* offset = nullptr;  // of each step of a row
  int64_t last = kStep;             // bytes of the last step that count, in whole words
  const int8_t* weights = nullptr;
  int columns = 0;    // at most kColumns
  char* y = nullptr;  // of the first line
  int64_t y_row = 0;  // bytes
  // What tiles bring to the second-level cache meanwhile.
  const void* next = nullptr;
  int64_t next_bytes = 0;
};

}  // namespace hg::kernels
