// SPDX-License-Identifier: Apache-2.0
// The error of a row is e^T H e with e = w - q, and H = sum x x^T over the inputs. With H = R^T R,
// R upper triangular, it is the sum over a of (R[a, a] e[a] + sum_{m > a} R[a, m] e[m])^2. From the
// last column to the first, each level makes its term small: the level near
//     w[a] + sum_{m > a} R[a, m] e[m] / R[a, a].
// These are the levels of GPTQ (Frantar et al. 2022, algorithm 1), which eliminates the columns
// with the inverse of H, here without the inverse. Columns with large H[a, a] come first. Inside a
// block of columns, sums grow column by column; one product adds all columns after the block.
#include "lib/quantize/second_order.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "hg/ops.h"
#include "lib/graph/element.h"

namespace hg {
namespace {

constexpr double kDamping = 0.01;  // of the mean of H's diagonal, as in GPTQ
constexpr size_t kBlock = 64;      // columns between two products
constexpr size_t kLanes = 256;     // candidates that are computed together
// Nearest, compensated, compensated with searched scales; and all zeros, whose error is the size of
// the results.
constexpr int kRules = 4, kZeros = 3;

// Products of matrices of doubles. A session divides them among threads.
class Products {
 public:
  static Result<Products> create(const SessionOptions& session) {
    Graph g;
    const Value a = g.input("a", f64, {"m", "k"}), b = g.input("b", f64, {"k", "n"});
    g.output("y", matmul(a, b));
    HG_TRY_ASSIGN(const Model model, Model::from_graph(std::move(g)));
    HG_TRY_ASSIGN(Session made, Session::create(model, {.threads = session.threads,
                                                        .parallel_for = session.parallel_for}));
    return Products(std::move(made));
  }

  // Of a: [m, k] and b: [k, n]. The result is valid until the next call.
  Result<const double*> multiply(size_t m, size_t k, size_t n, const double* a, const double* b) {
    const auto rows = static_cast<int64_t>(m), depth = static_cast<int64_t>(k);
    HG_TRY(session_.set_input(0, view(a, f64, {rows, depth})));
    HG_TRY(session_.set_input(1, view(b, f64, {depth, static_cast<int64_t>(n)})));
    HG_TRY(session_.run());
    HG_TRY_ASSIGN(const Tensor y, session_.output(0));
    return y.as<double>();
  }

 private:
  explicit Products(Session session) : session_(std::move(session)) {}
  Session session_;
};

// R with R^T R = a, in place in the upper triangle, by blocks of rows. Returns false if `a` is not
// positive definite. products: null for one block.
Result<bool> factorize(std::vector<double>& a, size_t n, Products* products) {
  std::vector<double> left, right;
  for (size_t from = 0; from < n; from += kBlock) {
    const size_t to = std::min(from + kBlock, n), width = n - from;
    if (from > 0) {  // a[from:to, from:] -= R[:from, from:to]^T R[:from, from:]
      left.resize((to - from) * from);
      right.resize(from * width);
      for (size_t p = 0; p < from; ++p) {
        const double* const above = &a[p * n + from];
        for (size_t i = 0; i < to - from; ++i) left[i * from + p] = above[i];
        std::copy_n(above, width, &right[p * width]);
      }
      HG_TRY_ASSIGN(const double* product,
                    products->multiply(to - from, from, width, left.data(), right.data()));
      for (size_t i = from; i < to; ++i)
        for (size_t j = from; j < n; ++j) a[i * n + j] -= *product++;
    }
    for (size_t k = from; k < to; ++k) {
      double* const row = &a[k * n];
      for (size_t p = from; p < k; ++p) {
        const double factor = a[p * n + k];
        const double* const above = &a[p * n];
        for (size_t j = k; j < n; ++j) row[j] -= factor * above[j];
      }
      if (!(row[k] > 0)) return false;
      const double root = std::sqrt(row[k]);
      for (size_t j = k; j < n; ++j) row[j] /= root;
    }
  }
  return true;
}

// One group of a convolution, or the whole matrix.
class Group {
 public:
  static Result<Group> create(const std::vector<double>& moments, size_t columns,
                              Products* products) {
    Group made(moments, columns, products);
    HG_TRY_ASSIGN(made.is_definite_, factorize(made.factor_, columns, products));
    return made;
  }
  bool is_definite() const { return is_definite_; }

  struct Lane {
    int64_t row = 0;
    int rule = 0;
    double error = 0;  // e^T H e
  };

  // Selects levels for the lanes. weight(row, column) is an element. level(lane, column, value)
  // stores the level near the value and returns the number that the level represents.
  template <class Element, class Level>
  Status round(std::span<Lane> lanes, const Element& weight, const Level& level) {
    const size_t count = lanes.size();
    off_.resize(columns_ * count);
    for (size_t to = columns_; to > 0;) {
      const size_t from = (to - 1) / kBlock * kBlock;
      HG_TRY(sum_later(from, to, count));
      for (size_t a = to; a-- > from;) {
        const double* const r = &factor_[a * columns_];
        double* const sums = &sums_[(a - from) * count];
        for (size_t m = a + 1; m < to; ++m)
          for (size_t l = 0; l < count; ++l) sums[l] += r[m] * off_[m * count + l];
        for (size_t l = 0; l < count; ++l) {
          Lane& lane = lanes[l];
          const double w = weight(lane.row, at_[a]);
          const double e = w - level(lane, at_[a], lane.rule == 0 ? w : w + sums[l] / r[a]);
          const double left = r[a] * e + sums[l];
          off_[a * count + l] = e;
          lane.error += left * left - damping_ * e * e;
        }
      }
      to = from;
    }
    for (Lane& lane : lanes) lane.error = std::max(lane.error, 0.0);
    return {};
  }

 private:
  Group(const std::vector<double>& moments, size_t columns, Products* products)
      : columns_(columns), products_(products), at_(columns), factor_(columns * columns) {
    std::iota(at_.begin(), at_.end(), size_t{0});
    const auto moment = [&](size_t i, size_t j) { return moments[i * columns + j]; };
    std::stable_sort(at_.begin(), at_.end(),
                     [&](size_t i, size_t j) { return moment(i, i) < moment(j, j); });
    double sum = 0;
    for (size_t i = 0; i < columns; ++i) sum += moment(i, i);
    damping_ = kDamping * sum / static_cast<double>(columns);
    for (size_t i = 0; i < columns; ++i)
      for (size_t j = i; j < columns; ++j)
        factor_[i * columns + j] = moment(at_[i], at_[j]) + (i == j ? damping_ : 0);
  }

  // sums_[a, lane] = sum_{m >= to} R[a, m] e[m] for a in [from, to).
  Status sum_later(size_t from, size_t to, size_t lanes) {
    sums_.assign((to - from) * lanes, 0);
    const size_t later = columns_ - to;
    if (later == 0) return {};
    panel_.resize((to - from) * later);
    for (size_t a = from; a < to; ++a)
      std::copy_n(&factor_[a * columns_ + to], later, &panel_[(a - from) * later]);
    HG_TRY_ASSIGN(const double* const product,
                  products_->multiply(to - from, later, lanes, panel_.data(), &off_[to * lanes]));
    std::copy_n(product, sums_.size(), sums_.begin());
    return {};
  }

  size_t columns_;
  Products* products_;      // null for one block
  std::vector<size_t> at_;  // columns, by ascending H[a, a]
  double damping_ = 0;
  std::vector<double> factor_;  // R
  bool is_definite_ = false;
  std::vector<double> off_;    // e, [columns, lanes]
  std::vector<double> sums_;   // of a block, [columns, lanes]
  std::vector<double> panel_;  // of R
};

}  // namespace

Result<SecondOrder> round_second_order(std::string_view name, const Tensor& weight,
                                       const Blocks& blocks, int bits, const WeightMatrix& matrix,
                                       const InputSums& inputs, const SessionOptions& session) {
  const auto columns = static_cast<size_t>(matrix.columns);
  std::vector<float> importance(static_cast<size_t>(weight.count()));
  for (int64_t g = 0; g < matrix.groups; ++g) {
    const std::vector<double>& moments = inputs.moments[static_cast<size_t>(g)];
    double most = 0;
    for (size_t c = 0; c < columns; ++c) most = std::max(most, moments[c * columns + c]);
    for (size_t c = 0; c < columns; ++c) {
      // Columns without inputs still count a little.
      const double share = most == 0 ? 1 : moments[c * columns + c] / most + 1e-6;
      for (int64_t r = 0; r < matrix.rows; ++r)
        importance[static_cast<size_t>(matrix.element(g, r, static_cast<int64_t>(c)))] =
            static_cast<float>(share);
    }
  }
  HG_TRY_ASSIGN(const std::vector<double> widest,
                select_scales(name, weight, blocks, bits, false, {}));
  HG_TRY_ASSIGN(const std::vector<double> searched,
                select_scales(name, weight, blocks, bits, true, importance));
  const std::vector<int64_t> block = blocks_of_elements(blocks);
  std::array<std::vector<int8_t>, kZeros> levels;
  for (std::vector<int8_t>& of_rule : levels) of_rule.resize(block.size());
  std::vector<double> scales = widest;
  double nearest = 0, selected = 0, size = 0;
  std::optional<Products> products;
  if (columns > kBlock) {
    HG_TRY_ASSIGN(Products made, Products::create(session));
    products.emplace(std::move(made));
  }
  for (int64_t g = 0; g < matrix.groups; ++g) {
    HG_TRY_ASSIGN(Group group, Group::create(inputs.moments[static_cast<size_t>(g)], columns,
                                             products ? &*products : nullptr));
    const auto at = [&](int64_t row, size_t column) {
      return static_cast<size_t>(matrix.element(g, row, static_cast<int64_t>(column)));
    };
    const auto number = [&](int64_t row, size_t column) {
      return element(weight, static_cast<int64_t>(at(row, column)));
    };
    const auto round = [&](const Group::Lane& lane, size_t column, double value) {
      if (lane.rule == kZeros) return 0.0;
      const size_t i = at(lane.row, column);
      const double scale = (lane.rule == 2 ? searched : widest)[static_cast<size_t>(block[i])];
      const int level = scale == 0 ? 0 : level_near(value / scale, bits);
      levels[static_cast<size_t>(lane.rule)][i] = static_cast<int8_t>(level);
      return dequantized(weight.dtype, level, scale);
    };
    constexpr int64_t kRowsAtOnce = kLanes / kRules;
    for (int64_t first = 0; first < matrix.rows; first += kRowsAtOnce) {
      std::vector<Group::Lane> lanes;
      for (int64_t r = first; r < std::min(first + kRowsAtOnce, matrix.rows); ++r)
        for (int rule = 0; rule < kRules; ++rule) lanes.push_back({.row = r, .rule = rule});
      if (group.is_definite()) {
        HG_TRY(group.round(lanes, number, round));
      } else {  // no inputs, or only zeros
        for (const Group::Lane& lane : lanes)
          for (size_t c = 0; c < columns; ++c) round(lane, c, number(lane.row, c));
      }
      for (size_t l = 0; l < lanes.size(); l += kRules) {
        const auto best = std::min_element(
            lanes.begin() + static_cast<std::ptrdiff_t>(l),
            lanes.begin() + static_cast<std::ptrdiff_t>(l) + kZeros,
            [](const Group::Lane& a, const Group::Lane& b) { return a.error < b.error; });
        nearest += lanes[l].error;
        selected += best->error;
        size += lanes[l + kZeros].error;
        for (size_t c = 0; c < columns; ++c) {
          const size_t i = at(best->row, c);
          levels[0][i] = levels[static_cast<size_t>(best->rule)][i];
          if (best->rule == 2)
            scales[static_cast<size_t>(block[i])] = searched[static_cast<size_t>(block[i])];
        }
      }
    }
  }
  SecondOrder out;
  HG_TRY_ASSIGN(out.rounded, with_levels(weight, blocks, bits, scales, levels[0]));
  out.nearest_error = size == 0 ? 0 : std::sqrt(nearest / size);
  out.error = size == 0 ? 0 : std::sqrt(selected / size);
  return out;
}

}  // namespace hg
