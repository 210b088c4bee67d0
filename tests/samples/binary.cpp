// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/binary.cpp.
#include <limits>

#include "tests/ops/samples.h"

namespace hg::test::samples {
namespace {

struct Shapes {
  Sizes a, b;
};
const Shapes kShapes[] = {
    {{}, {}},      {{7}, {1}},        {{2, 3, 17}, {2, 3, 17}}, {{2, 1, 5}, {3, 1}},
    {{0, 3}, {3}}, {{3, 130}, {130}}, {{2, 130}, {2, 1}},
};

}  // namespace

std::vector<Sample> binary() {
  std::vector<Sample> s;
  for (std::string_view op : {"add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin",
                              "atan2", "hypot", "copysign", "logaddexp"}) {
    for (const auto& [a, b] : kShapes)
      s.push_back({op, {{f32, a, -3, 3}, {f32, b, 0.5, 4}}, {}, 5e-6});
  }
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (std::string_view op : {"maximum", "minimum", "fmax", "fmin"}) {
    s.push_back({op,
                 {{f32, {9}, 0, 0, {kNan, 1, kNan, -1, 2, 3, -0.5, kNan, 5}},
                  {f32, {9}, 0, 0, {1, kNan, kNan, 2, -1, 3, 4, -6, kNan}}},
                 {},
                 0,
                 false});
  }
  for (const auto& [a, b] : kShapes) {
    s.push_back({"pow", {{f32, a, 0.3, 3}, {f32, b, -2, 3}}, {}, 1e-5});
    s.push_back({"xlogy", {{f32, a, -3, 3}, {f32, b, 0.3, 4}}, {}, 5e-6});
    for (std::string_view op : {"floor_divide", "trunc_divide", "remainder", "fmod"}) {
      s.push_back({op, {{f64, a, -9, 9}, {f64, b, 0.5, 2}}});
      s.push_back({op, {{f32, a, -9, 9}, {f32, b, 0.5, 2}}, {}, 5e-6});
    }
    s.push_back({"nextafter", {{f64, a, -9, 9}, {f64, b, 0.5, 2}}});
    for (std::string_view op : {"add", "mul", "maximum", "minimum", "fmax", "fmin", "bitwise_and",
                                "bitwise_or", "bitwise_xor"})
      s.push_back({op, {{boolean, a, 0, 1}, {boolean, b, 0, 1}}});
  }
  for (DType dtype : {i64, i32, i16, i8, u8}) {
    const double low = dtype == u8 ? 0 : -9;
    for (std::string_view op : {"add", "sub", "mul", "maximum", "minimum", "fmax", "fmin",
                                "bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm"})
      s.push_back({op, {{dtype, {3, 17}, low, 9}, {dtype, {17}, low, 9}}});
    for (std::string_view op : {"floor_divide", "trunc_divide", "remainder", "fmod"}) {
      s.push_back({op, {{dtype, {3, 17}, low, 9}, {dtype, {17}, 1, 4}}});
      if (dtype != u8) s.push_back({op, {{dtype, {3, 17}, low, 9}, {dtype, {17}, -4, -1}}});
    }
    s.push_back({"pow", {{dtype, {3, 17}, dtype == u8 ? 0.0 : -2.0, 2}, {dtype, {17}, 0, 4}}});
    s.push_back({"bitwise_left_shift", {{dtype, {3, 17}, low, 9}, {dtype, {17}, 0, 3}}});
    s.push_back({"bitwise_right_shift", {{dtype, {3, 17}, low, 9}, {dtype, {17}, 0, 3}}});
  }
  s.push_back({"add", {{f32, {41, 1031}}, {f32, {1031}}}, {}, 2e-6, false});
  return s;
}

}  // namespace hg::test::samples
