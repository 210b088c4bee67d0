// SPDX-License-Identifier: Apache-2.0
#include "lib/quantize/levels.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hg {
namespace {

constexpr double kMostSum = std::numeric_limits<int32_t>::max();
// Limit of a bias, in units of its scale, which leaves the rest of an i32 to the products.
constexpr double kMostBias = 1 << 29;

}  // namespace

double Levels::place(double x) const {
  return std::nearbyint(static_cast<float>(x) / scale) + zero;
}

Levels levels_of(double low, double high) {
  low = std::min(low, 0.0);
  high = std::max(high, 0.0);
  const auto scale = static_cast<float>((high - low) / 255);
  if (!std::isfinite(scale) || !std::isfinite(1 / scale)) return {};
  const double zero = std::nearbyint(-low / scale);
  return {scale, static_cast<int>(std::clamp(zero, 0.0, 255.0))};
}

Result<IntegerSum> integer_sum(const AffineLayer& layer, const Levels& x) {
  const Tensor& weight = *layer.weight;
  const auto out = static_cast<int64_t>(layer.factor.size());
  const int64_t depth = out == 0 ? 0 : weight.count() / out;
  const auto* const from = weight.as<const float>();
  const int64_t row = layer.by_column ? 1 : depth, column = layer.by_column ? out : 1;
  const int64_t to_row = layer.as_columns ? 1 : depth, to_column = layer.as_columns ? out : 1;
  IntegerSum sum;
  HG_TRY_ASSIGN(sum.weight,
                TensorData::allocate(i8, layer.as_columns ? Sizes{depth, out} : weight.shape));
  HG_TRY_ASSIGN(sum.bias, TensorData::allocate(i32, {out}));
  auto* const to = sum.weight.tensor.as<int8_t>();
  double off = 0, all = 0;
  for (int64_t o = 0; o < out; ++o) {
    const auto at = static_cast<size_t>(o);
    const double factor = layer.factor[at], offset = layer.offset[at];
    double most = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const double w = factor * from[o * row + k * column];
      if (!std::isfinite(w)) {
        sum.refused = str_cat("a weight is ", w);
        return sum;
      }
      most = std::max(most, std::abs(w));
    }
    if (!std::isfinite(offset)) {
      sum.refused = str_cat("its bias is ", offset);
      return sum;
    }
    // Weights that are tiny compared with the bias use fewer levels, so that the bias fits an i32.
    double scale = std::max(most / 127, std::abs(offset) / (kMostBias * double{x.scale}));
    scale = std::max(scale, std::numeric_limits<float>::min() / double{x.scale});
    if (!(scale * x.scale <= std::numeric_limits<float>::max())) {
      sum.refused = "its results are too large";
      return sum;
    }
    double reach = 0;  // largest sum, for any levels of x
    for (int64_t k = 0; k < depth; ++k) {
      const double w = factor * from[o * row + k * column];
      const double level = std::clamp(std::nearbyint(w / scale), -127.0, 127.0);
      to[o * to_row + k * to_column] = static_cast<int8_t>(level);
      off += (level * scale - w) * (level * scale - w);
      all += w * w;
      reach += std::abs(level);
    }
    const double bias = std::nearbyint(offset / (scale * x.scale));
    reach = reach * std::max(x.zero, 255 - x.zero) + std::abs(bias);
    if (reach > kMostSum) {
      sum.refused = str_cat("its sums may reach ", reach, ", beyond 32 bits");
      return sum;
    }
    sum.bias.tensor.as<int32_t>()[o] = static_cast<int32_t>(bias);
    sum.scales.push_back(scale * x.scale);
  }
  sum.error = all > 0 ? std::sqrt(off / all) : 0;
  return sum;
}

}  // namespace hg
