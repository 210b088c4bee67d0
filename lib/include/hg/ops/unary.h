// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/unary.cpp: elementwise functions of one tensor. The result has x's shape,
// and x's dtype unless stated otherwise. Functions that are not exact on integers require floats.
#pragma once

#include <optional>

#include "hg/graph.h"

namespace hg {

inline Value neg(const Value& x) { return x.graph()->call("neg", {x}); }    // -x
inline Value abs(const Value& x) { return x.graph()->call("abs", {x}); }    // |x|
inline Value sign(const Value& x) { return x.graph()->call("sign", {x}); }  // -1, 0 or 1; 0 for NaN
inline Value sqrt(const Value& x) { return x.graph()->call("sqrt", {x}); }  // square root
inline Value rsqrt(const Value& x) { return x.graph()->call("rsqrt", {x}); }  // 1 / sqrt(x)
inline Value reciprocal(const Value& x) { return x.graph()->call("reciprocal", {x}); }  // 1 / x
inline Value exp(const Value& x) { return x.graph()->call("exp", {x}); }                // e^x
inline Value exp2(const Value& x) { return x.graph()->call("exp2", {x}); }              // 2^x
inline Value expm1(const Value& x) { return x.graph()->call("expm1", {x}); }            // e^x - 1
inline Value log(const Value& x) { return x.graph()->call("log", {x}); }      // natural logarithm
inline Value log2(const Value& x) { return x.graph()->call("log2", {x}); }    // to base 2
inline Value log10(const Value& x) { return x.graph()->call("log10", {x}); }  // to base 10
inline Value log1p(const Value& x) { return x.graph()->call("log1p", {x}); }  // log(1 + x)
inline Value sin(const Value& x) { return x.graph()->call("sin", {x}); }
inline Value cos(const Value& x) { return x.graph()->call("cos", {x}); }
inline Value tan(const Value& x) { return x.graph()->call("tan", {x}); }
inline Value asin(const Value& x) { return x.graph()->call("asin", {x}); }
inline Value acos(const Value& x) { return x.graph()->call("acos", {x}); }
inline Value atan(const Value& x) { return x.graph()->call("atan", {x}); }
inline Value sinh(const Value& x) { return x.graph()->call("sinh", {x}); }
inline Value cosh(const Value& x) { return x.graph()->call("cosh", {x}); }
inline Value tanh(const Value& x) { return x.graph()->call("tanh", {x}); }
inline Value asinh(const Value& x) { return x.graph()->call("asinh", {x}); }
inline Value acosh(const Value& x) { return x.graph()->call("acosh", {x}); }
inline Value atanh(const Value& x) { return x.graph()->call("atanh", {x}); }
inline Value erf(const Value& x) { return x.graph()->call("erf", {x}); }        // error function
inline Value erfc(const Value& x) { return x.graph()->call("erfc", {x}); }      // 1 - erf(x)
inline Value erfinv(const Value& x) { return x.graph()->call("erfinv", {x}); }  // inverse of erf
inline Value lgamma(const Value& x) { return x.graph()->call("lgamma", {x}); }  // log |gamma(x)|
// derivative of lgamma
inline Value digamma(const Value& x) { return x.graph()->call("digamma", {x}); }
inline Value sigmoid(const Value& x) { return x.graph()->call("sigmoid", {x}); }  // 1 / (1 + e^-x)
inline Value sinc(const Value& x) { return x.graph()->call("sinc", {x}); }  // sin(pi x) / (pi x)
inline Value floor(const Value& x) { return x.graph()->call("floor", {x}); }
inline Value ceil(const Value& x) { return x.graph()->call("ceil", {x}); }
inline Value trunc(const Value& x) { return x.graph()->call("trunc", {x}); }        // toward zero
inline Value square(const Value& x) { return x.graph()->call("square", {x}); }      // x * x
inline Value frac(const Value& x) { return x.graph()->call("frac", {x}); }          // x - trunc(x)
inline Value isnan(const Value& x) { return x.graph()->call("isnan", {x}); }        // bool
inline Value isinf(const Value& x) { return x.graph()->call("isinf", {x}); }        // bool
inline Value isfinite(const Value& x) { return x.graph()->call("isfinite", {x}); }  // bool
// bool; true for -0.0
inline Value signbit(const Value& x) { return x.graph()->call("signbit", {x}); }
// bool: x == 0
inline Value logical_not(const Value& x) { return x.graph()->call("logical_not", {x}); }
// integers and bool only
inline Value bitwise_not(const Value& x) { return x.graph()->call("bitwise_not", {x}); }

// Rounds to this number of decimals, ties to even.
inline Value round(const Value& x, int64_t decimals = 0) {
  return x.graph()->call("round", {x}, {{"decimals", decimals}});
}
// Replaces NaN and infinities. By default, infinities become the largest finite numbers.
inline Value nan_to_num(const Value& x, double nan = 0, std::optional<double> posinf = {},
                        std::optional<double> neginf = {}) {
  NamedAttrs attrs = {{"nan", nan}};
  if (posinf) attrs.push_back({"posinf", *posinf});
  if (neginf) attrs.push_back({"neginf", *neginf});
  return x.graph()->call("nan_to_num", {x}, attrs);
}

}  // namespace hg
