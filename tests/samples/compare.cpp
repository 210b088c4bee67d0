// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/compare.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> compare() {
  std::vector<Sample> s;
  for (std::string_view op :
       {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"}) {
    for (DType dtype : {f32, i64, i32, i16, i8, u8, boolean}) {
      const double low = dtype == u8 || dtype == boolean ? 0 : -2;
      const double high = dtype == boolean ? 1 : 2;
      s.push_back({op, {{dtype, {3, 17}, low, high}, {dtype, {17}, low, high}}});
      s.push_back({op, {{dtype, {}, low, high}, {dtype, {5, 1}, low, high}}});
    }
    s.push_back({op, {{f32, {0, 3}}, {f32, {}}}});
  }
  return s;
}

}  // namespace hg::test::samples
