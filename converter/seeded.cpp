// SPDX-License-Identifier: Apache-2.0
#include "converter/seeded.h"

#include <cmath>

namespace hg::convert {
namespace {

// splitmix64 (Steele, Lea, Flood 2014).
struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  double normal() {                                                         // Box and Muller 1958
    double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
};

void put(void* data, DType dtype, int64_t i, double value) {
  switch (dtype) {
    case f32:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      break;
    case f64:
      static_cast<double*>(data)[i] = value;
      break;
    case f16:
      static_cast<Half*>(data)[i] = Half(static_cast<float>(value));
      break;
    case bf16:
      static_cast<BFloat16*>(data)[i] = BFloat16(static_cast<float>(value));
      break;
    case i64:
      static_cast<int64_t*>(data)[i] = static_cast<int64_t>(value);
      break;
    case i32:
      static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
      break;
    case i16:
      static_cast<int16_t*>(data)[i] = static_cast<int16_t>(value);
      break;
    case i8:
      static_cast<int8_t*>(data)[i] = static_cast<int8_t>(value);
      break;
    case u8:
      static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value);
      break;
    case boolean:
      static_cast<bool*>(data)[i] = value != 0;
      break;
  }
}

}  // namespace

Result<TensorData> seeded_input(DType dtype, const Sizes& shape,
                                const std::optional<std::pair<double, double>>& range,
                                Filling filling, uint64_t seed) {
  HG_TRY_ASSIGN(TensorData data, TensorData::allocate(dtype, shape));
  Random random{seed * 0x2545F4914F6CDD1D + 1};
  random.next();
  for (int64_t i = 0; i < data.tensor.count(); ++i) {
    double value;
    if (range && is_float(dtype)) {
      value = range->first + (range->second - range->first) * random.uniform();
    } else if (range) {
      double low = std::ceil(range->first), steps = std::floor(range->second) - low + 1;
      value = low + std::floor(steps * random.uniform());
    } else if (is_float(dtype)) {
      value = filling == Filling::positive ? 0.1 + 0.9 * random.uniform() : random.normal();
    } else if (dtype == boolean || filling == Filling::usual) {
      value = static_cast<double>(random.next() >> 63);
    } else {
      value = filling == Filling::positive ? 1 : 0;
    }
    put(data.tensor.data, dtype, i, value);
  }
  return data;
}

}  // namespace hg::convert
