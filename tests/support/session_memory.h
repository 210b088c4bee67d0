// SPDX-License-Identifier: Apache-2.0
// Host tensors in any memory: with offsets, gaps, transposed dims, negative strides, between
// guards, or on top of an input.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "hg/tensor.h"

namespace hg::test {

class SessionMemory {
 public:
  explicit SessionMemory(std::mt19937_64& random) : random_(random) {}

  // The same elements in other memory; equal inputs may share it.
  Result<Tensor> spread(const Tensor& x) {
    for (const auto& [from, to] : inputs_)
      if (chance(0.3) && from.dtype == x.dtype && from.shape == x.shape &&
          std::memcmp(from.data, x.data, x.bytes()) == 0)
        return to;
    HG_TRY_ASSIGN(const Tensor to, place(x));
    copy_elements(x, to);
    inputs_.emplace_back(x, to);
    return to;
  }
  void forget_inputs() { inputs_.clear(); }

  // Memory for an output like `y`: new memory, or that of an input with the same number of bytes.
  Result<Tensor> home(const Tensor& y) {
    for (const auto& [from, to] : inputs_)
      if (chance(0.2) && to.is_contiguous() && from.bytes() == y.bytes() && y.count() > 0 &&
          !is_home(to.data)) {
        homes_.push_back(to.data);
        return view(to.data, y.dtype, y.shape);
      }
    return place(y);
  }
  void forget_home(const Tensor& home) { std::erase(homes_, home.data); }

  // Call it after runs, which may have overwritten inputs.
  void restore_inputs() {
    for (const auto& [from, to] : inputs_) copy_elements(from, to);
  }

  bool guards_are_whole() const {
    for (const Region& region : regions_)
      for (int64_t i = 0; i < region.all.tensor.count(); ++i)
        if (!region.is_used[i] && region.all.tensor.as<uint8_t>()[i] != kPattern) return false;
    return true;
  }

 private:
  static constexpr int64_t kGuard = 128;
  static constexpr uint8_t kPattern = 0xa5;
  struct Region {
    TensorData all;
    std::vector<bool> is_used;  // by byte
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(double p) { return static_cast<double>(random_() >> 11) * 0x1p-53 < p; }
  bool is_home(const void* data) const {
    for (const void* home : homes_)
      if (home == data) return true;
    return false;
  }

  Result<Tensor> place(const Tensor& like) {
    Tensor t = like;
    t.strides = contiguous_strides(like.shape);
    int64_t elements = t.count();
    const bool plain = chance(0.4) || elements == 0;
    if (!plain) {
      // Dims in random order, each with or without a gap, forwards or backwards.
      std::vector<int> order(t.rank());
      for (int d = 0; d < t.rank(); ++d) order[d] = d;
      if (chance(0.5)) std::shuffle(order.begin(), order.end(), random_);
      int64_t step = chance(0.3) ? 2 : 1;
      for (size_t k = order.size(); k-- > 0;) {
        const int d = order[k];
        t.strides[d] = step;
        step *= t.shape[d];
        if (chance(0.2)) step += 1 + below(3);
      }
      elements = step + 1;
    }
    int64_t first = 0;
    for (int d = 0; d < t.rank() && !plain; ++d)
      if (chance(0.2) && t.shape[d] > 0) {
        first += (t.shape[d] - 1) * t.strides[d];
        t.strides[d] = -t.strides[d];
      }
    const int64_t size = size_of(t.dtype), shift = chance(0.5) ? 0 : size * (1 + below(5));
    Region region;
    HG_TRY_ASSIGN(region.all, TensorData::allocate(u8, {elements * size + 2 * kGuard + shift}));
    auto* const bytes = region.all.tensor.as<uint8_t>();
    std::memset(bytes, kPattern, region.all.tensor.count());
    t.data = bytes + kGuard + shift + first * size;
    region.is_used.assign(region.all.tensor.count(), false);
    mark(t, 0, kGuard + shift + first * size, region.is_used);
    regions_.push_back(std::move(region));
    return t;
  }

  static void mark(const Tensor& t, int dim, int64_t at, std::vector<bool>& used) {
    if (dim == t.rank()) {
      for (int64_t i = 0; i < size_of(t.dtype); ++i) used[at + i] = true;
      return;
    }
    for (int64_t i = 0; i < t.shape[dim]; ++i)
      mark(t, dim + 1, at + i * t.strides[dim] * size_of(t.dtype), used);
  }

  std::mt19937_64& random_;
  std::vector<Region> regions_;
  std::vector<std::pair<Tensor, Tensor>> inputs_;
  std::vector<const void*> homes_;
};

}  // namespace hg::test
