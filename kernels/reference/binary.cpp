// SPDX-License-Identifier: Apache-2.0
// Arithmetic on two tensors.
#include <cmath>
#include <numeric>

#include "kernels/reference/pointwise.h"

namespace hg::reference::rows {
namespace {

// Sum and product of bool are `or` and `and`: any nonzero value is rounded to true.
double floor_divide(double a, double b) { return std::floor(a / b); }
double remainder(double a, double b) { return a - b * std::floor(a / b); }
double power(double a, double b) { return std::pow(a, b); }
// Integer powers of magnitude below 1 are 0.
void power_any(const Call& c) {
  binary_loop<power>(c);
  if (!is_float(c.out[0].dtype))
    for (double& y : c.out[0].values) y = std::trunc(y);
}
double maximum(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double minimum(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double bit_and(double a, double b) { return double(int64_t(a) & int64_t(b)); }
double bit_or(double a, double b) { return double(int64_t(a) | int64_t(b)); }
double bit_xor(double a, double b) { return double(int64_t(a) ^ int64_t(b)); }
double shift_left(double a, double b) { return a * std::exp2(b); }
double shift_right(double a, double b) { return std::floor(a / std::exp2(b)); }
double xlogy(double a, double b) { return a == 0 ? 0 : a * std::log(b); }

// The next number in the dtype itself.
void nextafter(const Call& c) {
  const Broadcast from(c.in[0], c.out[0].shape), to(c.in[1], c.out[0].shape);
  for (int64_t i = 0; i < c.out[0].count(); ++i) {
    const double a = from.at(i), b = to.at(i);
    c.out[0].at(i) = c.out[0].dtype == f64
                         ? std::nextafter(a, b)
                         : double{std::nextafter(static_cast<float>(a), static_cast<float>(b))};
  }
}

constexpr Row kRows[] = {
    {"add", binary_loop<[](double a, double b) { return a + b; }>},
    {"sub", binary_loop<[](double a, double b) { return a - b; }>},
    {"mul", binary_loop<[](double a, double b) { return a * b; }>},
    {"div", binary_loop<[](double a, double b) { return a / b; }>},
    {"floor_divide", binary_loop<floor_divide>},
    {"trunc_divide", binary_loop<[](double a, double b) { return std::trunc(a / b); }>},
    {"remainder", binary_loop<remainder>},
    {"fmod", binary_loop<[](double a, double b) { return std::fmod(a, b); }>},
    {"pow", power_any},
    {"maximum", binary_loop<maximum>},
    {"minimum", binary_loop<minimum>},
    {"fmax", binary_loop<[](double a, double b) { return std::fmax(a, b); }>},
    {"fmin", binary_loop<[](double a, double b) { return std::fmin(a, b); }>},
    {"atan2", binary_loop<[](double a, double b) { return std::atan2(a, b); }>},
    {"hypot", binary_loop<[](double a, double b) { return std::hypot(a, b); }>},
    {"nextafter", nextafter},
    {"copysign", binary_loop<[](double a, double b) { return std::copysign(a, b); }>},
    {"logaddexp",
     binary_loop<[](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }>},
    {"xlogy", binary_loop<xlogy>},
    {"bitwise_and", binary_loop<bit_and>},
    {"bitwise_or", binary_loop<bit_or>},
    {"bitwise_xor", binary_loop<bit_xor>},
    {"bitwise_left_shift", binary_loop<shift_left>},
    {"bitwise_right_shift", binary_loop<shift_right>},
    {"gcd",
     binary_loop<[](double a, double b) { return double(std::gcd(int64_t(a), int64_t(b))); }>},
    {"lcm",
     binary_loop<[](double a, double b) { return double(std::lcm(int64_t(a), int64_t(b))); }>},
};

}  // namespace

std::span<const Row> binary() { return kRows; }

}  // namespace hg::reference::rows
