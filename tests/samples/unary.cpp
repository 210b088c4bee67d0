// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/unary.cpp.
#include <cmath>
#include <limits>

#include "tests/ops/samples.h"

namespace hg::test::samples {
namespace {

struct Range {
  std::string_view op;
  double low, high;
};
// The range where each function is defined and smooth enough.
constexpr Range kFunctions[] = {
    {"neg", -3, 3},        {"abs", -3, 3},         {"sign", -3, 3},    {"sqrt", 0.1, 4},
    {"rsqrt", 0.1, 4},     {"reciprocal", 0.2, 4}, {"exp", -3, 3},     {"exp2", -3, 3},
    {"expm1", -3, 3},      {"log", 0.1, 9},        {"log2", 0.1, 9},   {"log10", 0.1, 9},
    {"log1p", -0.8, 5},    {"sin", -3, 3},         {"cos", -3, 3},     {"tan", -1.2, 1.2},
    {"asin", -0.9, 0.9},   {"acos", -0.9, 0.9},    {"atan", -3, 3},    {"sinh", -3, 3},
    {"cosh", -3, 3},       {"tanh", -3, 3},        {"asinh", -3, 3},   {"acosh", 1.2, 6},
    {"atanh", -0.9, 0.9},  {"erf", -3, 3},         {"erfc", -3, 3},    {"erfinv", -0.95, 0.95},
    {"lgamma", 0.3, 9},    {"digamma", 0.3, 9},    {"sigmoid", -3, 3}, {"sinc", 0.1, 3},
    {"floor", -3, 3},      {"ceil", -3, 3},        {"trunc", -3, 3},   {"round", -3, 3},
    {"nan_to_num", -3, 3}, {"isnan", -3, 3},       {"isinf", -3, 3},   {"isfinite", -3, 3},
    {"signbit", -3, 3},    {"logical_not", -3, 3}, {"square", -3, 3},  {"frac", -3, 3},
};

}  // namespace

std::vector<Sample> unary() {
  std::vector<Sample> s;
  for (const Range& f : kFunctions) {
    for (const Sizes& shape : {Sizes{}, Sizes{1}, Sizes{2, 3, 17}, Sizes{0, 5}}) {
      const bool given = f.op == "nan_to_num";
      s.push_back({f.op, {{f32, shape, f.low, f.high}}});
      if (given) s.back().attrs = {{"nan", 1.5}, {"posinf", 2.0}, {"neginf", -2.0}};
      s.back().tolerance = 5e-6;
      s.back().gradient = f.op != "frac";
    }
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (std::string_view op : {"log", "sqrt", "rsqrt", "reciprocal", "abs", "neg", "floor", "ceil"})
    s.push_back({op,
                 {{f32, {9}, 0, 0, {-kInfinity, -1, -0.0, 0, 1e-30, 0.9999, 1, kInfinity, kNan}}},
                 {},
                 5e-6,
                 false});
  s.push_back({"nan_to_num", {{f32, {4}, 0, 0, {kInfinity, -kInfinity, kNan, 1}}}});
  s.back().attrs = {{"nan", 1.5}, {"posinf", 2.0}, {"neginf", -2.0}};
  s.back().gradient = false;
  s.push_back({"expm1", {{f32, {7}, 0, 0, {-kInfinity, -90, -1e-6, 0, 1e-6, 0.5, kNan}}}});
  s.back().gradient = false;
  s.push_back({"exp", {{f32, {40, 1031}, -3, 3}}, {}, 2e-6, false});
  s.push_back({"round",
               {{f32,
                 {11},
                 0,
                 0,
                 {0.5, 1.5, 2.5, -0.5, -1.5, 0.0, -0.25, 65503.0, 2047.5, INFINITY, -INFINITY}}}});
  s.push_back({"round", {{f32, {31}, -40, 40}}, {{"decimals", 1}}, 1e-2});
  s.push_back({"round", {{f32, {31}, -400, 400}}, {{"decimals", -2}}});
  for (DType dtype : {i64, i32, i16, i8})
    for (std::string_view op :
         {"neg", "abs", "sign", "square", "bitwise_not", "logical_not", "isnan"})
      s.push_back({op, {{dtype, {37}, -9, 9}}});
  for (DType dtype : {u8, boolean})
    for (std::string_view op : {"bitwise_not", "logical_not", "isfinite", "isinf", "signbit"})
      s.push_back({op, {{dtype, {37}, 0, 1}}});
  return s;
}

}  // namespace hg::test::samples
