// SPDX-License-Identifier: Apache-2.0
// Copies between tensors of any strides; threads share the work.
#pragma once

#include <algorithm>

#include "hg/kernel.h"

namespace hg::kernels {

// Copies the elements of `from` to `to`, which must have equal dtypes and shapes and must not
// overlap. Splits large copies along the outer dims into about 64 parts.
inline void copy_strided(const RunContext& c, const Tensor& from, const Tensor& to) {
  constexpr int64_t kGrain = 1 << 15;  // elements
  constexpr int64_t kParts = 64;
  const int64_t count = from.count();
  if (count < 2 * kGrain) return copy_elements(from, to);
  // Dims before `dim` have one index in each part; `dim` has a range.
  int dim = 0;
  int64_t outer = 1;
  for (; outer * from.shape[dim] < kParts && dim + 1 < from.rank(); ++dim) outer *= from.shape[dim];
  const int64_t size = from.shape[dim], ranges = std::min(size, (kParts + outer - 1) / outer);
  const int64_t each = std::max<int64_t>(1, count / (outer * ranges));
  c.parallel_for(outer * ranges, (kGrain + each - 1) / each, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      Tensor source = from, target = to;
      int64_t at = part / ranges, from_offset = 0, to_offset = 0;
      const auto take = [&](int d, int64_t first, int64_t width) {
        source.shape[d] = target.shape[d] = width;
        from_offset += first * from.strides[d];
        to_offset += first * to.strides[d];
      };
      const int64_t first = part % ranges * size / ranges;
      take(dim, first, (part % ranges + 1) * size / ranges - first);
      for (int d = dim - 1; d >= 0; --d) {
        take(d, at % from.shape[d], 1);
        at /= from.shape[d];
      }
      source.data = source.as<char>() + from_offset * size_of(from.dtype);
      target.data = target.as<char>() + to_offset * size_of(to.dtype);
      copy_elements(source, target);
    }
  });
}

}  // namespace hg::kernels
