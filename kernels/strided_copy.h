// SPDX-License-Identifier: Apache-2.0
// Copies between tensors of any strides: neighbouring dims that move alike are joined, and what is
// left runs in parallel over its outer dims, with tiles where one side is transposed.
#pragma once

#include <algorithm>
#include <cstring>

#include "hg/kernel.h"

namespace hg::kernels {

struct StridedCopy {
  Sizes shape, from, to;  // strides in elements

  // Dims of one element are dropped, dims that are one run on both sides are joined.
  static StridedCopy of(const Sizes& shape, const Sizes& from, const Sizes& to) {
    StridedCopy c;
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape[d] == 1) continue;
      const int last = c.shape.rank() - 1;
      if (last >= 0 && c.from[last] == from[d] * shape[d] && c.to[last] == to[d] * shape[d]) {
        c.shape[last] *= shape[d];
        c.from[last] = from[d];
        c.to[last] = to[d];
      } else {
        c.shape.push_back(shape[d]);
        c.from.push_back(from[d]);
        c.to.push_back(to[d]);
      }
    }
    if (c.shape.empty()) {
      c.shape.push_back(1);
      c.from.push_back(1);
      c.to.push_back(1);
    }
    return c;
  }
};

template <class T>
inline void copy_run(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t count) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  } else if (from_stride == 0 && to_stride == 1) {
    std::fill_n(to, count, *from);
  } else if (to_stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * from_stride];
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

// rows x columns; the columns are one run in `to`, the rows one run in `from`.
template <class T>
inline void copy_transposed(const T* from, int64_t from_columns, T* to, int64_t to_rows,
                            int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 16;  // rows, whose lines of the cache stay while columns pass
  for (int64_t r = 0; r < rows; r += kTile) {
    const int64_t r_end = std::min(rows, r + kTile);
    int64_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      const T* at = from + c * from_columns;
      for (int64_t i = r; i < r_end; ++i) {
        const T four[4] = {at[i], at[i + from_columns], at[i + 2 * from_columns],
                           at[i + 3 * from_columns]};
        std::memcpy(to + i * to_rows + c, four, sizeof(four));
      }
    }
    for (; c < columns; ++c)
      for (int64_t i = r; i < r_end; ++i) to[i * to_rows + c] = from[i + c * from_columns];
  }
}

template <class T>
void copy_elements(const RunContext& c, const T* from, T* to, const StridedCopy& s) {
  constexpr int64_t kGrain = 1 << 15;  // elements
  const int rank = s.shape.rank();
  const int last = rank - 1;
  const int64_t columns = s.shape[last];
  if (rank == 1) {
    c.parallel_for(columns, kGrain, [&](int64_t begin, int64_t end) {
      copy_run(from + begin * s.from[0], s.from[0], to + begin * s.to[0], s.to[0], end - begin);
    });
    return;
  }
  // The dim that is one run in `from`, for tiles; moved next to the last.
  int row = -1;
  if (s.to[last] == 1 && s.from[last] != 1 && s.from[last] != 0)
    for (int d = 0; d < last; ++d)
      if (s.from[d] == 1) row = d;
  Sizes outer_shape, outer_from, outer_to;
  for (int d = 0; d < last; ++d) {
    if (d == row) continue;
    outer_shape.push_back(s.shape[d]);
    outer_from.push_back(s.from[d]);
    outer_to.push_back(s.to[d]);
  }
  constexpr int64_t kStrip = 64;  // rows of tiles that one task does
  const int64_t rows = row >= 0 ? s.shape[row] : 1;
  const int64_t strips = (rows + kStrip - 1) / kStrip;
  const int64_t each = std::min(rows, kStrip) * columns;
  const int64_t tasks = outer_shape.count() * strips;
  c.parallel_for(tasks, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, each)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t task = begin; task < end; ++task) {
                     int64_t at = task / strips;
                     const T* source = from;
                     T* target = to;
                     for (int d = outer_shape.rank() - 1; d >= 0; --d) {
                       const int64_t i = at % outer_shape[d];
                       at /= outer_shape[d];
                       source += i * outer_from[d];
                       target += i * outer_to[d];
                     }
                     if (row < 0) {
                       copy_run(source, s.from[last], target, s.to[last], columns);
                       continue;
                     }
                     const int64_t first = task % strips * kStrip;
                     copy_transposed(source + first, s.from[last], target + first * s.to[row],
                                     s.to[row], std::min(kStrip, rows - first), columns);
                   }
                 });
}

// Copies the elements of `from` to those of `to`: equal dtypes and shapes, no overlap.
inline void copy_strided(const RunContext& c, const Tensor& from, const Tensor& to) {
  if (from.count() == 0) return;
  const StridedCopy s = StridedCopy::of(from.shape, from.strides, to.strides);
  switch (size_of(from.dtype)) {
    case 1:
      return copy_elements(c, from.as<const uint8_t>(), to.as<uint8_t>(), s);
    case 2:
      return copy_elements(c, from.as<const uint16_t>(), to.as<uint16_t>(), s);
    case 4:
      return copy_elements(c, from.as<const uint32_t>(), to.as<uint32_t>(), s);
    case 16: {
      struct Words {
        uint64_t low, high;
      };
      return copy_elements(c, from.as<const Words>(), to.as<Words>(), s);
    }
    default:
      return copy_elements(c, from.as<const uint64_t>(), to.as<uint64_t>(), s);
  }
}

}  // namespace hg::kernels
