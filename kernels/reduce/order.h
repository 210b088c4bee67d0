// SPDX-License-Identifier: Apache-2.0
// The positions of a line sorted by their elements. NaN is the largest, and zeros are equal
// whatever their sign.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>
#include <type_traits>

#include "kernels/lines.h"

namespace hg::kernels {

// Calls f.template operator()<Key>() with a type that orders the elements of a dtype equally well.
template <class F>
void for_key(DType dtype, const F& f) {
  if (dtype == DType::f64) return f.template operator()<double>();
  if (is_float(dtype)) return f.template operator()<float>();
  f.template operator()<int64_t>();
}

// The n elements of x from `begin` on, `step` apart.
template <class Key>
void read_keys(const Tensor& x, int64_t begin, int64_t step, int64_t n, Key* keys) {
  for_type(x.dtype, [&](auto zero) {
    const auto* from = x.as<decltype(zero)>() + begin;
    if (step == 1)
      for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<Key>(wide(from[i]));
    else
      for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<Key>(wide(from[i * step]));
  });
}

// Whether a key is strictly less.
template <class Key>
bool is_before(Key a, Key b, bool descending) {
  const Key x = descending ? b : a, y = descending ? a : b;
  return x < y || (x == x && y != y);
}

// Orders positions by their keys.
template <class Key>
struct Order {
  const Key* keys;
  bool descending;

  bool before(int64_t a, int64_t b) const { return is_before(keys[a], keys[b], descending); }
  // Likewise; equal keys are in the order of their positions.
  bool operator()(int64_t a, int64_t b) const { return before(a, b) || (a < b && !before(b, a)); }
};

// A stable merge sort without allocation: sorts the n numbers in `items`; `spare` has room for n.
// before(a, b): a is strictly less.
template <class Before>
void merge_sort(int64_t* items, int64_t* spare, int64_t n, const Before& before) {
  constexpr int64_t kRun = 16;  // sorted by insertion
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const int64_t end = std::min(n, begin + kRun);
    for (int64_t i = begin + 1; i < end; ++i) {
      const int64_t item = items[i];
      int64_t k = i;
      for (; k > begin && before(item, items[k - 1]); --k) items[k] = items[k - 1];
      items[k] = item;
    }
  }
  int64_t* from = items;
  int64_t* to = spare;
  for (int64_t width = kRun; width < n; width *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * width) {
      const int64_t middle = std::min(n, begin + width), end = std::min(n, begin + 2 * width);
      int64_t a = begin, b = middle;
      for (int64_t k = begin; k < end; ++k)
        to[k] = b == end || (a < middle && !before(from[b], from[a])) ? from[a++] : from[b++];
    }
    std::swap(from, to);
  }
  if (from != items) std::copy(from, from + n, items);
}

// Sorts n keys as numbers of 32 bits, each above its position in the lower 32 bits. Returns false
// if this is not possible: for doubles, and for integers of too large a range.
template <class Key>
bool pack_keys(const Key* keys, int64_t n, bool descending, int64_t* items) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  if (std::is_same_v<Key, double> || n > kMost) return false;
  const auto put = [&](int64_t i, uint32_t number) {
    items[i] = static_cast<int64_t>(uint64_t{descending ? ~number : number} << 32 |
                                    static_cast<uint64_t>(i));
  };
  if constexpr (std::is_same_v<Key, float>) {
    for (int64_t i = 0; i < n; ++i) {
      const auto bits = std::bit_cast<uint32_t>(keys[i] + 0.0f);  // -0 becomes 0
      const uint32_t sign = uint32_t{1} << 31;
      put(i, keys[i] != keys[i] ? ~uint32_t{0} : bits & sign ? ~bits : bits | sign);
    }
  } else if constexpr (std::is_same_v<Key, int64_t>) {
    const auto [low, high] = std::minmax_element(keys, keys + n);
    const auto first = static_cast<uint64_t>(*low);
    if (static_cast<uint64_t>(*high) - first > static_cast<uint64_t>(kMost)) return false;
    for (int64_t i = 0; i < n; ++i)
      put(i, static_cast<uint32_t>(static_cast<uint64_t>(keys[i]) - first));
  }
  return true;
}

// Sorts n items by their upper 32 bits, without comparing the lower ones. A stable radix sort by
// bytes, from the lowest, which skips bytes that are equal in all items.
void radix_sort(int64_t* items, int64_t* spare, int64_t n);

// Sorts the positions [0, n) by their keys, stable; `order` and `spare` have room for n.
template <class Key>
void sort_places(const Key* keys, int64_t n, bool descending, int64_t* order, int64_t* spare) {
  constexpr int64_t kFew = 128;  // for fewer, a merge sort is faster than counting bytes
  if (n > kFew && pack_keys(keys, n, descending, order)) return radix_sort(order, spare, n);
  std::iota(order, order + n, 0);
  merge_sort(order, spare, n, Order<Key>{keys, descending});
}

}  // namespace hg::kernels
