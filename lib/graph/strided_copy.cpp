// SPDX-License-Identifier: Apache-2.0
// Copies between tensors with any strides. Merges dims that move alike. If one side is transposed,
// copies tiles that stay in the cache.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hg/tensor.h"

namespace hg {
namespace {

// For elements of any alignment.
template <class Word>
struct [[gnu::packed]] Element {
  Word word;
};
struct Words {
  uint64_t low, high;
};

struct StridedCopy {
  Sizes shape, from, to;  // strides in elements

  // Drops dims of size 1, and merges dims that are one run on both sides.
  StridedCopy(const Sizes& of, const Sizes& from_strides, const Sizes& to_strides) {
    for (int d = 0; d < of.rank(); ++d) {
      if (of[d] == 1) continue;
      const int last = shape.rank() - 1;
      if (last >= 0 && from[last] == from_strides[d] * of[d] && to[last] == to_strides[d] * of[d]) {
        shape[last] *= of[d];
        from[last] = from_strides[d];
        to[last] = to_strides[d];
      } else {
        shape.push_back(of[d]);
        from.push_back(from_strides[d]);
        to.push_back(to_strides[d]);
      }
    }
    if (shape.empty()) {
      shape.push_back(1);
      from.push_back(1);
      to.push_back(1);
    }
  }
};

// Compilers do not vectorize elements of unknown alignment. A fill therefore copies its own start
// repeatedly.
template <class T>
void fill_run(const T& element, T* to, int64_t count) {
  constexpr int64_t kFirst = 8, kMost = 2048;
  int64_t done = std::min(count, kFirst);
  for (int64_t i = 0; i < done; ++i) to[i] = element;
  while (done < count) {
    const int64_t n = std::min({done, kMost, count - done});
    std::memcpy(to + done, to, static_cast<size_t>(n) * sizeof(T));
    done += n;
  }
}

#if !defined(HG_SMALL)
// to[i] = from[-i], in vectors that every target has.
template <class T>
void copy_reversed(const T* from, T* to, int64_t count) {
  int64_t i = 0;
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    constexpr int64_t kLanes = 16 / sizeof(T);
    using Vector [[gnu::vector_size(16)]] = decltype(T::word);
    for (; i + kLanes <= count; i += kLanes) {
      Vector x;
      std::memcpy(&x, from - i - (kLanes - 1), sizeof x);
      if constexpr (kLanes == 4)
        x = __builtin_shufflevector(x, x, 3, 2, 1, 0);
      else
        x = __builtin_shufflevector(x, x, 1, 0);
      std::memcpy(to + i, &x, sizeof x);
    }
  }
  for (; i < count; ++i) to[i] = from[-i];
}
#endif

template <class T>
void copy_run(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t count) {
  if (from_stride == 1 && to_stride == 1)
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  else if (from_stride == 0 && to_stride == 1)
    fill_run(*from, to, count);
#if !defined(HG_SMALL)
  else if (from_stride == -1 && to_stride == 1)
    copy_reversed(from, to, count);
#endif
  else if (to_stride == 1)
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * from_stride];
  else
    for (int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
}

// rows x columns with few columns: copies column by column, down rows that stay in the cache.
template <class T>
void copy_narrow(const T* from, int64_t from_row, int64_t from_column, T* to, int64_t to_row,
                 int64_t to_column, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 256;  // rows
  for (int64_t r = 0; r < rows; r += kTile)
    for (int64_t c = 0; c < columns; ++c)
      copy_run(from + r * from_row + c * from_column, from_row, to + r * to_row + c * to_column,
               to_row, std::min(kTile, rows - r));
}

// Four rows and columns of 32-bit elements in vectors that every target has. `from_columns` and
// `to_rows` are strides in elements.
void copy_four_by_four(const void* from, int64_t from_columns, void* to, int64_t to_rows) {
  using Four [[gnu::vector_size(16)]] = uint32_t;
  Four x[4];
  for (int64_t c = 0; c < 4; ++c)
    std::memcpy(&x[c], static_cast<const char*>(from) + 4 * c * from_columns, sizeof(Four));
  const Four even_low = __builtin_shufflevector(x[0], x[2], 0, 4, 1, 5);
  const Four even_high = __builtin_shufflevector(x[0], x[2], 2, 6, 3, 7);
  const Four odd_low = __builtin_shufflevector(x[1], x[3], 0, 4, 1, 5);
  const Four odd_high = __builtin_shufflevector(x[1], x[3], 2, 6, 3, 7);
  const Four rows[4] = {__builtin_shufflevector(even_low, odd_low, 0, 4, 1, 5),
                        __builtin_shufflevector(even_low, odd_low, 2, 6, 3, 7),
                        __builtin_shufflevector(even_high, odd_high, 0, 4, 1, 5),
                        __builtin_shufflevector(even_high, odd_high, 2, 6, 3, 7)};
  for (int64_t r = 0; r < 4; ++r)
    std::memcpy(static_cast<char*>(to) + 4 * r * to_rows, &rows[r], sizeof(Four));
}

// rows x columns; columns are contiguous in `to`, rows in `from`.
template <class T>
void copy_transposed(const T* from, int64_t from_columns, T* to, int64_t to_rows, int64_t rows,
                     int64_t columns) {
  constexpr int64_t kTile = 16;  // rows and columns, whose cache lines stay cached
  const auto copy_four = [&](int64_t i, int64_t c) {
    const T* at = from + c * from_columns + i;
    const decltype(T::word) four[4] = {at[0].word, at[from_columns].word, at[2 * from_columns].word,
                                       at[3 * from_columns].word};
    std::memcpy(to + i * to_rows + c, four, sizeof(four));
  };
  for (int64_t r = 0; r < rows; r += kTile) {
    const int64_t r_end = std::min(rows, r + kTile);
    for (int64_t first = 0; first < columns; first += kTile) {
      const int64_t c_end = std::min(columns, first + kTile);
      int64_t i = r;
      if constexpr (sizeof(T) == 4)
        for (; i + 4 <= r_end; i += 4)
          for (int64_t c = first; c + 4 <= c_end; c += 4)
            copy_four_by_four(from + c * from_columns + i, from_columns, to + i * to_rows + c,
                              to_rows);
      for (; i < r_end; ++i)
        for (int64_t c = first; c + 4 <= c_end; c += 4) copy_four(i, c);
      for (int64_t c = first + (c_end - first) / 4 * 4; c < c_end; ++c)
        for (i = r; i < r_end; ++i) to[i * to_rows + c] = from[i + c * from_columns];
    }
  }
}

// Iterates over dims before `dim`, outermost first; then copies runs of the last dim, or tiles of
// `row` and the last dim.
template <class T>
void copy_dims(const StridedCopy& s, int dim, int row, const T* from, T* to) {
  constexpr int64_t kFew = 8;
  const int last = s.shape.rank() - 1;
  if (dim == row) return copy_dims(s, dim + 1, row, from, to);
  if (row < 0 && dim == last - 1 && s.shape[last] <= kFew && s.shape[dim] > kFew) {
    copy_narrow(from, s.from[dim], s.from[last], to, s.to[dim], s.to[last], s.shape[dim],
                s.shape[last]);
  } else if (dim < last) {
    for (int64_t i = 0; i < s.shape[dim]; ++i)
      copy_dims(s, dim + 1, row, from + i * s.from[dim], to + i * s.to[dim]);
  } else if (row < 0) {
    copy_run(from, s.from[last], to, s.to[last], s.shape[last]);
  } else {
    copy_transposed(from, s.from[last], to, s.to[row], s.shape[row], s.shape[last]);
  }
}

template <class Word>
void copy_all(const ConstTensor& from, const Tensor& to) {
  using T = Element<Word>;
  const auto* const source = static_cast<const T*>(from.data);
  auto* const target = static_cast<T*>(to.data);
  if (from.rank() == 2 && from.strides[0] == 1 && to.strides[1] == 1)  // another copy of tiles
    return copy_transposed(source, from.strides[1], target, to.strides[0], from.shape[0],
                           from.shape[1]);
  const StridedCopy s(from.shape, from.strides, to.strides);
  const int last = s.shape.rank() - 1;
  int row = -1;  // the dim that is contiguous in `from`
  if (s.to[last] == 1 && s.from[last] != 1 && s.from[last] != 0)
    for (int d = 0; d < last; ++d)
      if (s.from[d] == 1) row = d;
  copy_dims(s, 0, row, source, target);
}

}  // namespace

void copy_elements(const ConstTensor& from, const Tensor& to) {
  if (from.count() == 0) return;
  switch (size_of(from.dtype)) {
    case 1:
      return copy_all<uint8_t>(from, to);
    case 2:
      return copy_all<uint16_t>(from, to);
    case 4:
      return copy_all<uint32_t>(from, to);
    case 16:
      return copy_all<Words>(from, to);
    default:
      return copy_all<uint64_t>(from, to);
  }
}

}  // namespace hg
