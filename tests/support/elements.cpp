// SPDX-License-Identifier: Apache-2.0
#include "tests/support/elements.h"

#include <cmath>
#include <limits>

namespace hg::test {

double read_element(const Tensor& t, int64_t offset) {
  switch (t.dtype) {
    case DType::f32:
      return t.as<float>()[offset];
    case DType::f64:
      return t.as<double>()[offset];
    case DType::f16:
      return static_cast<float>(t.as<Half>()[offset]);
    case DType::bf16:
      return static_cast<float>(t.as<BFloat16>()[offset]);
    case DType::i64:
      return static_cast<double>(t.as<int64_t>()[offset]);
    case DType::i32:
      return t.as<int32_t>()[offset];
    case DType::i16:
      return t.as<int16_t>()[offset];
    case DType::i8:
      return t.as<int8_t>()[offset];
    case DType::u8:
    case DType::bool_:
      return t.as<uint8_t>()[offset];
    case DType::c64:
    case DType::c128:
      break;  // tests read the parts instead
  }
  return 0;
}
void write_element(const Tensor& t, int64_t offset, double value) {
  const auto whole = [&] {
    return std::abs(value) < 9.2e18 ? static_cast<int64_t>(value)
                                    : std::numeric_limits<int64_t>::min();
  };
  switch (t.dtype) {
    case DType::f32:
      t.as<float>()[offset] = static_cast<float>(value);
      break;
    case DType::f64:
      t.as<double>()[offset] = value;
      break;
    case DType::f16:
      t.as<Half>()[offset] = Half(static_cast<float>(value));
      break;
    case DType::bf16:
      t.as<BFloat16>()[offset] = BFloat16(static_cast<float>(value));
      break;
    case DType::i64:
      t.as<int64_t>()[offset] = whole();
      break;
    case DType::i32:
      t.as<int32_t>()[offset] = static_cast<int32_t>(whole());
      break;
    case DType::i16:
      t.as<int16_t>()[offset] = static_cast<int16_t>(whole());
      break;
    case DType::i8:
      t.as<int8_t>()[offset] = static_cast<int8_t>(whole());
      break;
    case DType::u8:
      t.as<uint8_t>()[offset] = static_cast<uint8_t>(whole());
      break;
    case DType::bool_:
      t.as<uint8_t>()[offset] = value != 0;
      break;
    case DType::c64:
    case DType::c128:
      break;  // tests write the parts instead
  }
}
std::vector<double> read_all(const Tensor& t) {
  std::vector<double> values;
  for (int64_t i = 0, n = t.count(); i < n; ++i) {
    int64_t offset = 0, rest = i;
    for (int d = t.rank() - 1; d >= 0; --d) {
      offset += rest % t.shape[d] * t.strides[d];
      rest /= t.shape[d];
    }
    values.push_back(read_element(t, offset));
  }
  return values;
}

}  // namespace hg::test
