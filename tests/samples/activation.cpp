// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/activation.cpp.
#include <limits>

#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> activation() {
  std::vector<Sample> s;
  for (const Sizes& shape : {Sizes{}, Sizes{1}, Sizes{2, 3, 17}, Sizes{0, 5}}) {
    const SampleInput x = {f32, shape, -4, 4};
    for (std::string_view op :
         {"relu", "leaky_relu", "elu", "gelu", "silu", "mish", "softplus", "log_sigmoid",
          "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink"})
      s.push_back({op, {x}, {}, 4e-6});
    s.push_back({"leaky_relu", {x}, {{"negative_slope", 0.3}}});
    s.push_back({"elu", {x}, {{"alpha", 1.7}, {"scale", 1.1}, {"input_scale", 0.7}}, 4e-6});
    s.push_back({"gelu", {x}, {{"approximate", "tanh"}}, 4e-6});
    s.push_back({"softplus", {x}, {{"beta", 2.0}, {"threshold", 3.0}}, 4e-6});
    s.push_back({"hardtanh", {x}, {{"min_val", -0.7}, {"max_val", 2.2}}});
    s.push_back({"hardshrink", {x}, {{"lambd", 1.5}}});
    s.push_back({"softshrink", {x}, {{"lambd", 1.5}}});
    s.push_back({"threshold", {x}, {{"threshold", 0.4}, {"value", -3.0}}});
    s.push_back({"logit", {{f32, shape, 0.1, 0.9}}, {}, 4e-6});
    s.push_back({"logit", {{f32, shape, -1, 2}}, {{"eps", 0.2}}, 4e-6});
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (std::string_view op :
       {"leaky_relu", "elu", "mish", "softplus", "log_sigmoid", "hardtanh", "silu", "sigmoid"})
    s.push_back(
        {op,
         {{f32, {10}, 0, 0, {-kInfinity, -90, -20, -1e-4, 0, 1e-4, 20.5, 1e37, kInfinity, kNan}}},
         {},
         4e-6,
         false});
  s.push_back({"relu", {{i32, {19}, -5, 5}}});
  s.push_back({"hardtanh", {{i64, {19}, -9, 9}}, {{"min_val", -2.0}, {"max_val", 3.0}}});
  s.push_back({"gelu", {{f32, {37, 1031}, -4, 4}}, {}, 4e-6, false});
  return s;
}

}  // namespace hg::test::samples
