// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/activation.cpp. The result has the shape and dtype of x.
#pragma once

#include <optional>

#include "hg/graph.h"
#include "hg/words.h"

namespace hg {

inline Value relu(const Value& x) { return x.graph()->call("relu", {x}); }  // max(x, 0)
inline Value silu(const Value& x) { return x.graph()->call("silu", {x}); }  // x * sigmoid(x)
inline Value mish(const Value& x) { return x.graph()->call("mish", {x}); }  // x * tanh(softplus(x))
inline Value log_sigmoid(const Value& x) { return x.graph()->call("log_sigmoid", {x}); }
inline Value hardsigmoid(const Value& x) { return x.graph()->call("hardsigmoid", {x}); }
inline Value hardswish(const Value& x) { return x.graph()->call("hardswish", {x}); }
// x > 0 ? x : negative_slope * x
inline Value leaky_relu(const Value& x, double negative_slope = 0.01) {
  return x.graph()->call("leaky_relu", {x}, {{"negative_slope", negative_slope}});
}
// scale * (x > 0 ? x : alpha * (e^(input_scale * x) - 1)); includes selu and celu.
inline Value elu(const Value& x, double alpha = 1, double scale = 1, double input_scale = 1) {
  return x.graph()->call("elu", {x},
                         {{"alpha", alpha}, {"scale", scale}, {"input_scale", input_scale}});
}
// x * normal_cdf(x), or its tanh approximation.
inline Value gelu(const Value& x, GeluApproximation approximate = GeluApproximation::none) {
  return x.graph()->call("gelu", {x}, {{"approximate", approximate}});
}
// log(1 + e^(beta * x)) / beta; x where beta * x > threshold.
inline Value softplus(const Value& x, double beta = 1, double threshold = 20) {
  return x.graph()->call("softplus", {x}, {{"beta", beta}, {"threshold", threshold}});
}
// x clamped to [min_val, max_val].
inline Value hardtanh(const Value& x, double min_val = -1, double max_val = 1) {
  return x.graph()->call("hardtanh", {x}, {{"min_val", min_val}, {"max_val", max_val}});
}
// x where |x| > lambd, otherwise 0.
inline Value hardshrink(const Value& x, double lambd = 0.5) {
  return x.graph()->call("hardshrink", {x}, {{"lambd", lambd}});
}
// x shrunk toward 0 by lambd; 0 where |x| <= lambd.
inline Value softshrink(const Value& x, double lambd = 0.5) {
  return x.graph()->call("softshrink", {x}, {{"lambd", lambd}});
}
// x > threshold ? x : value
inline Value threshold(const Value& x, double threshold, double value) {
  return x.graph()->call("threshold", {x}, {{"threshold", threshold}, {"value", value}});
}
// log(x / (1 - x)). If eps is given, x is first clamped to [eps, 1 - eps].
inline Value logit(const Value& x, std::optional<double> eps = {}) {
  return eps ? x.graph()->call("logit", {x}, {{"eps", *eps}}) : x.graph()->call("logit", {x});
}

}  // namespace hg
