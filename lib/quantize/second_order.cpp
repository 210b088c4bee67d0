// SPDX-License-Identifier: Apache-2.0
// The error of a row is e^T H e with e = w - q, and H = sum x x^T over the inputs. With H = R^T R,
// R upper triangular, it is the sum over a of (R[a, a] e[a] + sum_{m > a} R[a, m] e[m])^2. From the
// last column to the first, each level makes its term small: the level near
//     w[a] + sum_{m > a} R[a, m] e[m] / R[a, a].
// These are the levels of GPTQ (Frantar et al. 2022, algorithm 1), which eliminates the columns
// with the inverse of H, here without the inverse. Columns with large H[a, a] come first.
#include "lib/quantize/second_order.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "lib/graph/element.h"

namespace hg {
namespace {

constexpr double kDamping = 0.01;  // of the mean of H's diagonal, as in GPTQ
constexpr size_t kLanes = 16;      // candidates that are computed together
// Nearest, compensated, compensated with searched scales; and all zeros, whose error is the size of
// the results.
constexpr int kRules = 4, kZeros = 3;

// R with R^T R = a, in place in the upper triangle, by panels of rows. Returns false if `a` is not
// positive definite.
bool factorize(std::vector<double>& a, size_t n) {
  constexpr size_t kPanel = 32;
  for (size_t from = 0; from < n; from += kPanel) {
    const size_t to = std::min(from + kPanel, n);
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
    for (size_t i = to; i < n; ++i) {
      double* const row = &a[i * n];
      for (size_t p = from; p < to; ++p) {
        const double factor = a[p * n + i];
        const double* const above = &a[p * n];
        for (size_t j = i; j < n; ++j) row[j] -= factor * above[j];
      }
    }
  }
  return true;
}

// One group of a convolution, or the whole matrix.
class Group {
 public:
  Group(const std::vector<double>& moments, size_t columns) : columns_(columns), at_(columns) {
    std::iota(at_.begin(), at_.end(), size_t{0});
    const auto moment = [&](size_t i, size_t j) { return moments[i * columns + j]; };
    std::stable_sort(at_.begin(), at_.end(),
                     [&](size_t i, size_t j) { return moment(i, i) < moment(j, j); });
    double sum = 0;
    for (size_t i = 0; i < columns; ++i) sum += moment(i, i);
    damping_ = kDamping * sum / static_cast<double>(columns);
    factor_.resize(columns * columns);
    for (size_t i = 0; i < columns; ++i)
      for (size_t j = i; j < columns; ++j)
        factor_[i * columns + j] = moment(at_[i], at_[j]) + (i == j ? damping_ : 0);
    is_definite_ = factorize(factor_, columns);
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
  void round(std::span<Lane> lanes, const Element& weight, const Level& level) {
    off_.assign(columns_, Numbers{});
    for (size_t a = columns_; a-- > 0;) {
      const double* const r = &factor_[a * columns_];
      Numbers sums{};
      for (size_t m = a + 1; m < columns_; ++m)
        for (size_t l = 0; l < kLanes; ++l) sums[l] += r[m] * off_[m][l];
      for (size_t l = 0; l < lanes.size(); ++l) {
        Lane& lane = lanes[l];
        const double w = weight(lane.row, at_[a]);
        const double e = w - level(lane, at_[a], lane.rule == 0 ? w : w + sums[l] / r[a]);
        const double left = r[a] * e + sums[l];
        off_[a][l] = e;
        lane.error += left * left - damping_ * e * e;
      }
    }
    for (Lane& lane : lanes) lane.error = std::max(lane.error, 0.0);
  }

 private:
  using Numbers = std::array<double, kLanes>;
  size_t columns_;
  std::vector<size_t> at_;  // columns, by ascending H[a, a]
  double damping_ = 0;
  std::vector<double> factor_;  // R
  bool is_definite_ = false;
  std::vector<Numbers> off_;  // e of each lane
};

}  // namespace

Result<SecondOrder> round_second_order(std::string_view name, const Tensor& weight,
                                       const Blocks& blocks, int bits, const WeightMatrix& matrix,
                                       const InputSums& inputs) {
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
  for (int64_t g = 0; g < matrix.groups; ++g) {
    Group group(inputs.moments[static_cast<size_t>(g)], columns);
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
        group.round(lanes, number, round);
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
