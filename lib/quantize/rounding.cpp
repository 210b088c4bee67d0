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

namespace {

// The scale of each element.
class Places {
 public:
  explicit Places(const Blocks& blocks) : shape_(blocks.shape) {
    int64_t step = 1;
    for (int d = shape_.rank(); d-- > 0;) {
      places_[d].resize(static_cast<size_t>(shape_[d]));
      for (int64_t i = 0; i < shape_[d]; ++i)
        places_[d][static_cast<size_t>(i)] = i / blocks.sizes[d] * step;
      step *= blocks.along(d);
    }
  }

  // Calls take(element, scale) for all elements in order.
  template <class Take>
  void each(Take&& take) const {
    const int last = shape_.rank() - 1;
    const int64_t columns = shape_[last], rows = columns == 0 ? 0 : shape_.count() / columns;
    const int64_t* const column = places_[last].data();
    Sizes at = shape_;
    for (int d = 0; d <= last; ++d) at[d] = 0;
    for (int64_t row = 0; row < rows; ++row) {
      int64_t base = 0;
      for (int d = 0; d < last; ++d) base += places_[d][static_cast<size_t>(at[d])];
      for (int64_t i = 0; i < columns; ++i) take(row * columns + i, base + column[i]);
      for (int d = last; d-- > 0 && ++at[d] == shape_[d];) at[d] = 0;
    }
  }

 private:
  Sizes shape_;
  std::vector<int64_t> places_[kMaxRank];
};

template <class T>
double number(T x) {
  if constexpr (sizeof(T) == 2)
    return static_cast<double>(static_cast<float>(x));
  else
    return static_cast<double>(x);
}

// The value of a weight of type T after level * scale, computed in Scale.
template <class T, class Scale>
double stands_for(double level, Scale scale) {
  const Scale product = static_cast<Scale>(level) * scale;
  if constexpr (sizeof(T) == 2)
    return number(T(product));
  else
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

template <class T, class Scale>
Status round_elements(std::string_view name, const Tensor& weight, const Blocks& blocks, int bits,
                      Rounded& out) {
  const double most = bits == 8 ? 127 : 7;
  const Places places(blocks);
  const T* const w = weight.as<T>();
  std::vector<double> largest(static_cast<size_t>(blocks.count()), 0);
  int64_t not_finite = -1;
  double unit = 0;
  places.each([&](int64_t i, int64_t block) {
    const double size = std::abs(number(w[i]));
    if (!std::isfinite(size)) not_finite = i;
    double& so_far = largest[static_cast<size_t>(block)];
    so_far = std::max(so_far, size);
    unit = std::max(unit, size);
  });
  HG_CHECK(not_finite < 0, "quantize: element ", not_finite, " of '", name, "' is ",
           number(w[not_finite]), ", not a finite number; `keep` leaves the weight as it is");
  Scale* const scales = out.scales.tensor.as<Scale>();
  for (size_t block = 0; block < largest.size(); ++block)
    scales[block] = scale_for<Scale>(largest[block], most);
  const LevelWriter levels(blocks, bits, out.levels.tensor);
  // Relative to the largest element, so that squares do not overflow.
  double wrong = 0, all = 0;
  if (unit == 0) unit = 1;
  places.each([&](int64_t i, int64_t block) {
    const double x = number(w[i]);
    const Scale scale = scales[block];
    const double ratio = scale == 0 ? 0 : x / static_cast<double>(scale);
    const double level = std::clamp(std::round(ratio), -most, most);
    const double off = (stands_for<T>(level, scale) - x) / unit;
    wrong += off * off;
    all += x / unit * (x / unit);
    levels.put(i, static_cast<int>(level));
  });
  out.error = all == 0 ? 0 : std::sqrt(wrong / all);
  return {};
}

}  // namespace

LevelWriter::LevelWriter(const Blocks& blocks, int bits, const Tensor& levels)
    : bytes_(levels.as<uint8_t>()),
      bits_(bits),
      inner_(contiguous_strides(blocks.shape)[blocks.packed()]),
      size_(blocks.shape[blocks.packed()]),
      half_(levels.shape[blocks.packed()]) {}

Result<Rounded> round_to_levels(std::string_view name, const Tensor& weight, const Blocks& blocks,
                                int bits) {
  Rounded out;
  HG_TRY_ASSIGN(out.levels, TensorData::allocate(i8, blocks.levels(bits)));
  HG_TRY_ASSIGN(out.scales, TensorData::allocate(weight.dtype == f64 ? f64 : f32, blocks.scales()));
  switch (weight.dtype) {
    case f32:
      HG_TRY((round_elements<float, float>(name, weight, blocks, bits, out)));
      break;
    case f64:
      HG_TRY((round_elements<double, double>(name, weight, blocks, bits, out)));
      break;
    case f16:
      HG_TRY((round_elements<Half, float>(name, weight, blocks, bits, out)));
      break;
    default:
      HG_TRY((round_elements<BFloat16, float>(name, weight, blocks, bits, out)));
  }
  return out;
}

namespace {

Value as(const Value& x, DType dtype) { return x.dtype() == dtype ? x : cast(x, dtype); }

}  // namespace

Value widened(const Value& levels, const Value& scales, const Value& offsets, const Value& four,
              const Blocks& blocks, int bits, DType dtype) {
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
