// SPDX-License-Identifier: Apache-2.0
// A pass of Stockham's transform for every instruction set.
#pragma once

#include <cstdint>

namespace hg::kernels {

// Complex numbers as two arrays. `lines` transforms run side by side: element i of line l is at i
// lines + l.
struct Complexes {
  double* re = nullptr;
  double* im = nullptr;
};

// `stride` transforms of length radix * rest become radix-sized steps of length rest:
// from[(p + rest j) stride + q] -> to[(radix p + k) stride + q]
struct FftPass {
  int64_t radix = 1, rest = 1, stride = 1, lines = 1;
  int64_t length = 0;             // of the whole transform
  const double* roots = nullptr;  // of unity, `length` of them, as pairs
  Complexes from, to;
};

struct FftTable {
  // Results of a line do not depend on the other lines.
  void (*pass)(const FftPass& pass) = nullptr;
};

const FftTable& fft_table();

}  // namespace hg::kernels
