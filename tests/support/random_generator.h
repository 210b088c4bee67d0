// SPDX-License-Identifier: Apache-2.0
// The builder of random_graph(). kernels/reference computes every node as it is added, so that
// functions are applied where they are defined and values stay in a range that rounding does not
// swamp.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "tests/support/random_graph.h"

namespace hg::test {

using Dims = std::vector<Dim>;
inline constexpr int64_t kMostElements = 3000;

struct Item {
  Value value;
  reference::Array data;
  bool is_rounded = false;   // may differ from the reference by rounding
  bool is_unsteady = false;  // jumps if a number is rounded differently
  double most() const {
    double most = 0;
    for (double x : data.values) most = std::max(most, std::isnan(x) ? HUGE_VAL : std::abs(x));
    return most;
  }
  double least() const {
    double least = HUGE_VAL;
    for (double x : data.values) least = std::min(least, std::abs(x));
    return least;
  }
  bool is_float() const { return hg::is_float(data.dtype); }
  int rank() const { return data.shape.rank(); }
};

inline Dims dims_of(const Sizes& sizes) { return Dims(sizes.begin(), sizes.end()); }

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  RandomGraph make();

 private:
  // ---- Chance ----
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(double p) { return static_cast<double>(random_() >> 11) * 0x1p-53 < p; }
  double real(double low, double high) {
    return low + static_cast<double>(random_() >> 11) * 0x1p-53 * (high - low);
  }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[below(static_cast<int>(all.size()))];
  }
  int64_t size() {
    return chance(0.02) ? 0 : one_of<int64_t>({1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 33});
  }
  Sizes shape() {
    for (;;) {
      Sizes sizes;
      for (int d = 0, rank = one_of<int>({0, 1, 2, 2, 3, 3, 4}); d < rank; ++d)
        sizes.push_back(size());
      if (sizes.count() <= kMostElements / 2) return sizes;
    }
  }
  // Any earlier value, more often a recent one; `fits` may reject it.
  const Item* pick(const std::function<bool(const Item&)>& fits = {});
  const Item* pick_float(int least_rank = 0) {
    return pick([&](const Item& x) { return x.is_float() && x.rank() >= least_rank; });
  }
  int dim_of(const Item& x) {
    const int rank = std::max(x.rank(), 1), dim = below(rank);
    return chance(0.3) ? dim - rank : dim;
  }
  Dims some_dims(const Item& x) {
    Dims dims;
    for (int d = 0; d < x.rank(); ++d)
      if (chance(0.5)) dims.emplace_back(chance(0.3) ? d - x.rank() : d);
    return dims;
  }

  // ---- What a graph begins with ----
  TensorData fill(DType dtype, const Sizes& sizes, double low, double high);
  void add_input(DType dtype);
  const Item& add_data(TensorData data);
  // Weights for an op that reads `x`.
  Item weight(const Item& x, const Sizes& sizes, double low = -1, double high = 1);
  Item index(const Sizes& sizes, int64_t end) {
    return add_data(fill(i64, sizes, 0, static_cast<double>(end)));
  }

  // ---- Nodes ----
  // Adds the call if the op accepts it, and keeps its values if they are useful.
  void add(std::string_view op, std::vector<Item> inputs, NamedAttrs attrs = {},
           bool jumps = false);
  void add_node();
  void unary();
  void binary();
  void compare();
  void choose();
  void convert();
  void reduce();
  void scan();
  void normalize();
  void product();
  void convolve();
  void pool();
  void turn();
  void cut();
  void join();
  void widen();
  void take();
  void order();
  void write_into();
  void attend();
  void whole();
  void resize();
  const Item* partner(const Item& x);
  Dims reshaped(int64_t count);
  void finish();

  std::mt19937_64 random_;
  RandomGraph made_;
  int data_count_ = 0;
  std::vector<Item> pool_;
  std::vector<Value> states_;
};

}  // namespace hg::test
