// SPDX-License-Identifier: Apache-2.0
#include "lib/quantize/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "hg/ops.h"

namespace hg {

int64_t Blocks::count() const {
  int64_t count = 1;
  for (int d = 0; d < shape.rank(); ++d) count *= along(d);
  return count;
}

int Blocks::split() const {
  for (int d = 0; d < shape.rank(); ++d)
    if (sizes[d] > 1 && sizes[d] < shape[d]) return d;
  return -1;
}

Sizes Blocks::scales() const {
  Sizes out;
  const int at = split();
  for (int d = 0; d < shape.rank(); ++d) {
    out.push_back(along(d));
    if (d == at) out.push_back(1);
  }
  return out;
}

int Blocks::packed() const {
  int largest = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] % 2 == 0) return d;
    if (shape[d] > shape[largest]) largest = d;
  }
  return largest;
}

Sizes Blocks::levels(int bits) const {
  Sizes out = shape;
  if (bits == 4) out[packed()] = (out[packed()] + 1) / 2;
  return out;
}

BlockPlaces::BlockPlaces(const Blocks& blocks) : shape_(blocks.shape) {
  int64_t step = 1;
  for (int d = shape_.rank(); d-- > 0;) {
    places_[d].resize(static_cast<size_t>(shape_[d]));
    for (int64_t i = 0; i < shape_[d]; ++i)
      places_[d][static_cast<size_t>(i)] = i / blocks.sizes[d] * step;
    step *= blocks.along(d);
  }
}

namespace {

// The value of a weight of the dtype after level * scale, computed in Scale.
template <class Scale>
double stands_for(DType dtype, double level, Scale scale) {
  const Scale product = static_cast<Scale>(level) * scale;
  if (dtype == f16) return static_cast<float>(Half(static_cast<float>(product)));
  if (dtype == bf16) return static_cast<float>(BFloat16(static_cast<float>(product)));
  return static_cast<double>(product);
}

// The scale with which level `most` represents the largest element.
template <class Scale>
Scale scale_for(double largest, double most) {
  auto scale = static_cast<Scale>(largest / most);
  // Among the smallest numbers, a scale has few significant bits.
  if (static_cast<double>(scale) * (most + 0.5) < largest)
    scale = std::nextafter(scale, std::numeric_limits<Scale>::infinity());
  if (!std::isfinite(static_cast<Scale>(most) * scale)) scale = std::nextafter(scale, Scale(0));
  return scale;
}

constexpr double most_level(int bits) { return bits == 8 ? 127 : 7; }
constexpr double least_level(int bits) { return bits == 8 ? -127 : -8; }

// The weights, their blocks and the type of the scales.
template <class Scale>
class Rounder {
 public:
  Rounder(const Tensor& weight, const Blocks& blocks, int bits)
      : w_(weight), blocks_(blocks), bits_(bits), places_(blocks), least_(-most_level(bits)) {}

  // The scales with which the largest elements have the largest level.
  Status measure(std::string_view name) {
    extreme_.assign(static_cast<size_t>(blocks_.count()), 0);
    int64_t not_finite = -1;
    places_.each([&](int64_t i, int64_t block) {
      const double x = number(i);
      if (!std::isfinite(x)) not_finite = i;
      double& so_far = extreme_[static_cast<size_t>(block)];
      if (std::abs(x) > std::abs(so_far)) so_far = x;
    });
    HG_CHECK(not_finite < 0, "quantize: element ", not_finite, " of '", name, "' is ",
             number(not_finite), ", not a finite number; `keep` leaves the weight as it is");
    scales_.reserve(extreme_.size());
    for (const double x : extreme_) {
      scales_.push_back(scale_for<Scale>(std::abs(x), most_level(bits_)));
      unit_ = std::max(unit_, std::abs(x));
    }
    if (unit_ == 0) unit_ = 1;
    return {};
  }

  // Replaces scales by those with a smaller squared error: smaller ones, which clamp the largest
  // elements, for 4 bits also negative ones, whose largest element has the level -8. Each is then
  // the best one for its levels.
  void search(std::span<const float> importance) {
    least_ = least_level(bits_);
    const std::vector<Scale> widest = scales_;
    std::vector<Scale> tried = scales_;
    std::vector<double> least = errors(tried, importance);
    const auto keep_better = [&] {
      const std::vector<double> now = errors(tried, importance);
      for (size_t i = 0; i < now.size(); ++i)
        if (now[i] < least[i]) {
          least[i] = now[i];
          scales_[i] = tried[i];
        }
    };
    const int steps = bits_ == 8 ? 8 : 20;
    for (int i = 0; i <= steps; ++i) {
      const double factor = 1 - i / 32.0;
      if (i > 0) {
        for (size_t k = 0; k < tried.size(); ++k)
          tried[k] = static_cast<Scale>(static_cast<double>(widest[k]) * factor);
        keep_better();
      }
      if (bits_ == 8) continue;
      for (size_t k = 0; k < tried.size(); ++k)
        tried[k] = static_cast<Scale>(extreme_[k] / least_level(bits_) * factor);
      keep_better();
    }
    for (int i = 0; i < 2; ++i) {
      tried = fitted(importance);
      keep_better();
    }
  }

  void put(Rounded& out) const {
    const LevelWriter levels(blocks_, bits_, out.levels.tensor);
    const std::vector<Scale>& scales = scales_;
    put_with(out, [&](int64_t i, int64_t block) {
      const int level = level_of(i, scales[static_cast<size_t>(block)]);
      levels.put(i, level);
      return level;
    });
  }
  // With scales and levels from elsewhere.
  void put(std::span<const double> scales, std::span<const int8_t> levels, Rounded& out) {
    for (const double scale : scales) scales_.push_back(static_cast<Scale>(scale));
    for (int64_t i = 0; i < blocks_.shape.count(); ++i)
      unit_ = std::max(unit_, std::abs(number(i)));
    if (unit_ == 0) unit_ = 1;
    const LevelWriter writer(blocks_, bits_, out.levels.tensor);
    put_with(out, [&](int64_t i, int64_t) {
      writer.put(i, levels[static_cast<size_t>(i)]);
      return levels[static_cast<size_t>(i)];
    });
  }
  std::vector<double> scales() const { return {scales_.begin(), scales_.end()}; }

 private:
  double number(int64_t i) const {
    if constexpr (sizeof(Scale) == 8) return w_.as<double>()[i];
    return w_.dtype == f32   ? w_.as<float>()[i]
           : w_.dtype == f16 ? static_cast<float>(w_.as<Half>()[i])
                             : static_cast<float>(w_.as<BFloat16>()[i]);
  }
  int level_of(int64_t i, Scale scale) const {
    const double ratio = scale == 0 ? 0 : number(i) / static_cast<double>(scale);
    return static_cast<int>(std::clamp(std::round(ratio), least_, most_level(bits_)));
  }

  // The squared error of each block with these scales. Relative to the largest element, so that
  // squares do not overflow.
  std::vector<double> errors(const std::vector<Scale>& scales,
                             std::span<const float> importance) const {
    constexpr double kRounds = 0x1.8p52;  // adding it rounds, which is faster than a call
    std::vector<double> out(scales.size(), 0);
    const double least = least_, most = most_level(bits_);
    places_.each([&](int64_t i, int64_t block) {
      const Scale scale = scales[static_cast<size_t>(block)];
      const double x = number(i);
      const double ratio = scale == 0 ? 0 : x / static_cast<double>(scale);
      const double level = (std::clamp(ratio, least, most) + kRounds) - kRounds;
      const double off = (stands_for<Scale>(w_.dtype, level, scale) - x) / unit_;
      const double factor = importance.empty() ? 1 : importance[static_cast<size_t>(i)];
      out[static_cast<size_t>(block)] += factor * off * off;
    });
    return out;
  }

  // The scales with the least squared error for the levels of the selected scales.
  std::vector<Scale> fitted(std::span<const float> importance) const {
    std::vector<double> products(scales_.size(), 0), squares(scales_.size(), 0);
    places_.each([&](int64_t i, int64_t at) {
      const auto block = static_cast<size_t>(at);
      const double level = level_of(i, scales_[block]);
      const double factor = importance.empty() ? 1 : importance[static_cast<size_t>(i)];
      products[block] += factor * level * (number(i) / unit_);
      squares[block] += factor * level * level;
    });
    std::vector<Scale> out = scales_;
    for (size_t i = 0; i < out.size(); ++i)
      if (squares[i] > 0) out[i] = static_cast<Scale>(products[i] / squares[i] * unit_);
    return out;
  }

  template <class Level>
  void put_with(Rounded& out, const Level& level_at) const {
    std::copy(scales_.begin(), scales_.end(), out.scales.tensor.template as<Scale>());
    double wrong = 0, all = 0;
    places_.each([&](int64_t i, int64_t block) {
      const double x = number(i);
      const int level = level_at(i, block);
      const double off =
          (stands_for<Scale>(w_.dtype, level, scales_[static_cast<size_t>(block)]) - x) / unit_;
      wrong += off * off;
      all += x / unit_ * (x / unit_);
    });
    out.error = all == 0 ? 0 : std::sqrt(wrong / all);
  }

  const Tensor& w_;
  const Blocks& blocks_;
  int bits_;
  BlockPlaces places_;
  double least_;                 // the least level
  std::vector<double> extreme_;  // the element of each block with the largest magnitude
  std::vector<Scale> scales_;
  double unit_ = 0;
};

// Calls f with a Rounder for the dtype of the scales.
template <class F>
auto with_rounder(const Tensor& weight, const Blocks& blocks, int bits, const F& f) {
  if (weight.dtype == f64) return f(Rounder<double>(weight, blocks, bits));
  return f(Rounder<float>(weight, blocks, bits));
}

Result<Rounded> room_for(const Tensor& weight, const Blocks& blocks, int bits) {
  Rounded out;
  out.bits = bits;
  HG_TRY_ASSIGN(out.levels, TensorData::allocate(i8, blocks.levels(bits)));
  HG_TRY_ASSIGN(out.scales, TensorData::allocate(weight.dtype == f64 ? f64 : f32, blocks.scales()));
  return out;
}

}  // namespace

LevelWriter::LevelWriter(const Blocks& blocks, int bits, const Tensor& levels)
    : bytes_(levels.as<uint8_t>()),
      bits_(bits),
      inner_(contiguous_strides(blocks.shape)[blocks.packed()]),
      size_(blocks.shape[blocks.packed()]),
      half_(levels.shape[blocks.packed()]) {}

Result<Rounded> round_to_levels(std::string_view name, const Tensor& weight, const Blocks& blocks,
                                int bits, bool searches) {
  HG_TRY_ASSIGN(Rounded out, room_for(weight, blocks, bits));
  HG_TRY(with_rounder(weight, blocks, bits, [&](auto rounder) -> Status {
    HG_TRY(rounder.measure(name));
    if (searches) rounder.search({});
    rounder.put(out);
    return {};
  }));
  return out;
}

Result<std::vector<double>> select_scales(std::string_view name, const Tensor& weight,
                                          const Blocks& blocks, int bits, bool searches,
                                          std::span<const float> importance) {
  return with_rounder(weight, blocks, bits, [&](auto rounder) -> Result<std::vector<double>> {
    HG_TRY(rounder.measure(name));
    if (searches) rounder.search(importance);
    return rounder.scales();
  });
}

std::vector<int64_t> blocks_of_elements(const Blocks& blocks) {
  std::vector<int64_t> out(static_cast<size_t>(blocks.shape.count()));
  BlockPlaces(blocks).each([&](int64_t i, int64_t block) { out[static_cast<size_t>(i)] = block; });
  return out;
}

int level_near(double ratio, int bits) {
  return static_cast<int>(std::clamp(std::round(ratio), least_level(bits), most_level(bits)));
}

double dequantized(DType dtype, double level, double scale) {
  if (dtype == f64) return level * scale;
  return stands_for(dtype, level, static_cast<float>(scale));
}

Result<Rounded> with_levels(const Tensor& weight, const Blocks& blocks, int bits,
                            std::span<const double> scales, std::span<const int8_t> levels) {
  HG_TRY_ASSIGN(Rounded out, room_for(weight, blocks, bits));
  with_rounder(weight, blocks, bits, [&](auto rounder) { rounder.put(scales, levels, out); });
  return out;
}

namespace {

Value as(const Value& x, DType dtype) { return x.dtype() == dtype ? x : cast(x, dtype); }

}  // namespace

Value widened(const Value& levels, const Value& scales, const Value& offsets, const Value& four,
              const Blocks& blocks, int bits, DType dtype) {
  if (bits == 16) return as(levels, dtype);
  const Shape shape = to_shape(blocks.shape);
  Value x = levels;
  if (bits == 4) {
    // Shifts of i8 preserve the sign.
    const int dim = blocks.packed();
    const Value low = bitwise_right_shift(bitwise_left_shift(x, four), four);
    x = concat({low, bitwise_right_shift(x, four)}, dim);
    if (blocks.shape[dim] % 2 != 0) x = slice(x, dim, 0, blocks.shape[dim]);
  }
  x = cast(x, scales.dtype());
  const auto combined = [&](const Value& numbers, const auto& spread) {
    const Value product = numbers * spread(scales);
    return offsets ? product + spread(offsets) : product;
  };
  const auto as_they_are = [](const Value& v) { return v; };
  const int at = blocks.split();
  if (at < 0) return as(combined(x, as_they_are), dtype);
  // scales: [..., blocks, 1, ...]
  const int64_t count = blocks.along(at), size = blocks.sizes[at];
  Shape apart;
  for (int d = 0; d < blocks.shape.rank(); ++d) {
    apart.emplace_back(d == at ? count : blocks.shape[d]);
    if (d == at) apart.emplace_back(size);
  }
  if (count * size == blocks.shape[at])
    return as(reshape(combined(reshape(x, apart), as_they_are), shape), dtype);
  Shape wide = scales.shape(), whole;
  wide[static_cast<size_t>(at) + 1] = size;
  for (int d = 0; d < blocks.shape.rank(); ++d)
    whole.emplace_back(d == at ? count * size : blocks.along(d));
  const auto repeated = [&](const Value& v) {
    return slice(reshape(expand(v, wide), whole), at, 0, blocks.shape[at]);
  };
  return as(combined(x, repeated), dtype);
}

}  // namespace hg
