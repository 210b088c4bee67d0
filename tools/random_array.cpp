// SPDX-License-Identifier: Apache-2.0
#include "tools/random_array.h"

#include <cmath>

#include "lib/graph/element.h"

namespace hg::tools {
namespace {

// A multiplicative congruential generator; Steele and Vigna 2021, table 4.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t next() {
    state_ *= 0xf1357aea2e62a9c5u;
    return state_ >> 32;
  }
  double real() { return static_cast<double>(next()) / 2147483648.0 - 1; }  // [-1, 1)
  int bit() { return static_cast<int>(next() >> 31); }
  double unit() {  // [0, 1), with the precision of f64
    const uint64_t high = next(), low = next();
    return static_cast<double>((high << 21) ^ (low >> 11)) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

// The integers that a dtype holds; f64 holds them exactly up to 2^53.
std::pair<double, double> limits(DType dtype) {
  if (dtype == boolean) return {0, 1};
  if (dtype == u8) return {0, 255};
  const int bits = dtype == i8 ? 7 : dtype == i16 ? 15 : dtype == i32 ? 31 : 53;
  return {-std::ldexp(1, bits), std::ldexp(1, bits) - 1};
}

Status fill_range(const Tensor& tensor, const std::pair<double, double>& range, Random& random) {
  auto [low, high] = range;
  const bool whole = !is_float(tensor.dtype);
  if (whole) {
    low = std::ceil(low), high = std::floor(high);
    const auto [least, most] = limits(tensor.dtype);
    HG_CHECK(low <= high && low >= least && high <= most, "no ", tensor.dtype, " is in the range ",
             range.first, "..", range.second);
  }
  for (int64_t i = 0, n = tensor.count(); i < n; ++i) {
    const double part = random.unit();
    set_element(tensor, i,
                whole ? low + std::floor(part * (high - low + 1)) : low + part * (high - low));
  }
  return {};
}

}  // namespace

Result<Array> random_array(DType dtype, const Sizes& shape, const Range& range, uint64_t seed) {
  HG_TRY_ASSIGN(TensorData data, TensorData::allocate(dtype, shape));
  Random random(seed + 1);
  const Tensor parts = is_complex(dtype) ? view_as_real(data.tensor) : data.tensor;
  if (range) {
    HG_TRY(fill_range(parts, *range, random));
  } else {
    const bool whole = !is_float(parts.dtype);
    for (int64_t i = 0, n = parts.count(); i < n; ++i)
      set_element(parts, i, whole ? random.bit() : static_cast<float>(random.real()));
  }
  return Array(std::move(data));
}

}  // namespace hg::tools
