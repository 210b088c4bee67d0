// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/rounded.h"

#include <cmath>
#include <limits>

namespace hg::reference {
namespace {

double kept(double value, DType dtype) {
  const int64_t whole =
      std::abs(value) < 9.2e18 ? static_cast<int64_t>(value) : std::numeric_limits<int64_t>::min();
  switch (dtype) {
    case DType::f64:
    case DType::c128:
      return value;
    case DType::f32:
    case DType::c64:
      return static_cast<float>(value);
    case DType::f16:
      return static_cast<float>(Half(static_cast<float>(value)));
    case DType::bf16:
      return static_cast<float>(BFloat16(static_cast<float>(value)));
    case DType::i64:
      return static_cast<double>(whole);
    case DType::i32:
      return static_cast<int32_t>(whole);
    case DType::i16:
      return static_cast<int16_t>(whole);
    case DType::i8:
      return static_cast<int8_t>(whole);
    case DType::u8:
      return static_cast<uint8_t>(whole);
    case DType::bool_:
      return value != 0;
  }
  return value;
}

}  // namespace

std::vector<double> rounded(std::vector<double> values, DType dtype) {
  for (double& value : values) value = kept(value, dtype);
  return values;
}

}  // namespace hg::reference
