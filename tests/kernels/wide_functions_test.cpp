// SPDX-License-Identifier: Apache-2.0
// f32 functions on numbers of all magnitudes against the C library's double functions. Results are
// at most the next float, with the same NaN, infinities and zeros.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/hg.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg::test {
namespace {

// Where erf has no digits left, by halving where erfc crosses 1 - |y|, which f64 holds.
double erfinv(double y) {
  const double size = std::abs(y);
  if (!(size < 1)) return size == 1 ? std::copysign(INFINITY, y) : NAN;
  if (size < 1e-4) return y * std::sqrt(std::numbers::pi) / 2 * (1 + std::numbers::pi / 12 * y * y);
  double low = 0, high = 6;
  for (int i = 0; i < 56; ++i) {
    const double middle = (low + high) / 2;
    const bool is_low = size < 0.5 ? std::erf(middle) < size : std::erfc(middle) > 1 - size;
    (is_low ? low : high) = middle;
  }
  return std::copysign(low, y);
}

struct Function {
  const char* op;
  double (*of)(double);
};
const Function kFunctions[] = {
    {"sin", [](double x) { return std::sin(x); }},
    {"cos", [](double x) { return std::cos(x); }},
    {"tan", [](double x) { return std::tan(x); }},
    {"asin", [](double x) { return std::asin(x); }},
    {"acos", [](double x) { return std::acos(x); }},
    {"atan", [](double x) { return std::atan(x); }},
    {"sinh", [](double x) { return std::sinh(x); }},
    {"cosh", [](double x) { return std::cosh(x); }},
    {"asinh", [](double x) { return std::asinh(x); }},
    {"acosh", [](double x) { return std::acosh(x); }},
    {"atanh", [](double x) { return std::atanh(x); }},
    {"log1p", [](double x) { return std::log1p(x); }},
    {"log2", [](double x) { return std::log2(x); }},
    {"log10", [](double x) { return std::log10(x); }},
    {"exp2", [](double x) { return std::exp2(x); }},
    {"erfinv", erfinv},
    {"erfc", [](double x) { return std::erfc(x); }},
    {"lgamma", [](double x) { return std::lgamma(x); }},
    {"logit", [](double x) { return std::log(x) - std::log1p(-x); }},
};

// In a type that is wider than that of the op.
template <class T>
struct FunctionOfTwo {
  const char* op;
  T (*of)(T, T);
};
template <class T>
const FunctionOfTwo<T> kFunctionsOfTwo[] = {
    {"atan2", [](T a, T b) { return std::atan2(a, b); }},
    {"hypot", [](T a, T b) { return std::hypot(a, b); }},
    {"logaddexp",
     [](T a, T b) {
       if (std::isnan(a) || std::isnan(b)) return T{NAN};
       const T top = std::max(a, b);
       return std::isinf(a) && a == b ? a : top + std::log1p(std::exp(-std::abs(a - b)));
     }},
    {"pow", [](T a, T b) { return std::pow(a, b); }},
};

// What divides floats, each step in T: to the bit.
template <class T>
T remainder(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
template <class T>
T floor_divide(T a, T b) {
  if (b == 0) return a / b;
  const T rest = std::fmod(a, b);
  const T taken = a - rest;
  T n = taken / b;
  if (rest != 0 && (rest < 0) != (b < 0)) n = n - 1;
  if (n == 0) return std::signbit(a / b) ? T(-0.0) : T(0);
  return n - std::floor(n) > T(0.5) ? std::floor(n) + 1 : std::floor(n);
}
template <class T>
const FunctionOfTwo<T> kDivisions[] = {
    {"fmod", [](T a, T b) { return std::fmod(a, b); }},
    {"remainder", remainder<T>},
    {"floor_divide", floor_divide<T>},
    {"nextafter", [](T a, T b) { return std::nextafter(a, b); }},
};

bool is_close(float value, float exact) {
  if (std::isnan(exact)) return std::isnan(value);
  if (value == exact) return value != 0 || std::signbit(value) == std::signbit(exact);
  return value == std::nextafter(exact, value);
}

template <class T>
std::vector<T> computed(const char* op, const std::vector<std::vector<T>>& inputs) {
  Graph g;
  const auto n = static_cast<int64_t>(inputs[0].size());
  std::vector<Value> values;
  for (size_t i = 0; i < inputs.size(); ++i) values.push_back(g.input("", dtype_of<T>(), {n}));
  g.output("y", g.call(op, values));
  Session session = must(Session::create(must(Model::from_graph(std::move(g))), {.threads = 2}));
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(session.set_input(static_cast<int>(i), view(inputs[i], {n})).ok());
  EXPECT_TRUE(session.run().ok());
  const Tensor y = must(session.output("y"));
  return {y.as<T>(), y.as<T>() + n};
}

TEST(WideFunctions, ErfinvOfDoublesHasItsDigitsUpToOne) {
  std::vector<double> y;
  for (double rest = 0x1p-53; rest < 1; rest *= 1.05)
    for (const double sign : {-1.0, 1.0}) y.push_back(sign * (1 - rest));
  const std::vector<double> got = computed<double>("erfinv", {y});
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_NEAR(got[i], erfinv(y[i]), 1e-13 * std::abs(got[i])) << y[i] - 1;
}

// HG_CASES floats with evenly spaced bits: all magnitudes and both signs.
TEST(WideFunctions, AreThoseOfTheCLibrary) {
  std::vector<float> x;
  const auto count = static_cast<uint64_t>(case_count(300007));
  for (uint64_t i = 0; i < count; ++i)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(i * (uint64_t{1} << 32) / count)));
  // As many numbers of moderate size, where functions change direction.
  Chance chance(1);
  for (uint64_t i = 0; i < count; ++i)
    x.push_back(static_cast<float>(chance.below(2000001) - 1000000) *
                (chance.chance(50) ? 1e-6f : 1e-4f));
  for (const Function& f : kFunctions) {
    SCOPED_TRACE(f.op);
    const std::vector<float> y = computed<float>(f.op, {x});
    int shown = 0;
    for (size_t i = 0; i < x.size() && shown < 5; ++i) {
      const auto exact = static_cast<float>(f.of(double{x[i]}));
      if (is_close(y[i], exact)) continue;
      ADD_FAILURE() << "of " << x[i] << ": " << y[i] << " for " << exact;
      ++shown;
    }
  }
}

struct LongFunction {
  const char* op;
  long double (*of)(long double);
};
const LongFunction kLongFunctions[] = {
    {"sin", [](long double x) { return std::sin(x); }},
    {"cos", [](long double x) { return std::cos(x); }},
    {"tan", [](long double x) { return std::tan(x); }},
    {"asin", [](long double x) { return std::asin(x); }},
    {"acos", [](long double x) { return std::acos(x); }},
    {"atan", [](long double x) { return std::atan(x); }},
    {"sinh", [](long double x) { return std::sinh(x); }},
    {"cosh", [](long double x) { return std::cosh(x); }},
    {"asinh", [](long double x) { return std::asinh(x); }},
    {"acosh", [](long double x) { return std::acosh(x); }},
    {"atanh", [](long double x) { return std::atanh(x); }},
    {"exp", [](long double x) { return std::exp(x); }},
    {"expm1", [](long double x) { return std::expm1(x); }},
    {"log", [](long double x) { return std::log(x); }},
    {"log1p", [](long double x) { return std::log1p(x); }},
    {"log2", [](long double x) { return std::log2(x); }},
    {"log10", [](long double x) { return std::log10(x); }},
    {"exp2", [](long double x) { return std::exp2(x); }},
    {"sqrt", [](long double x) { return std::sqrt(x); }},
    {"rsqrt", [](long double x) { return 1 / std::sqrt(x); }},
    {"floor", [](long double x) { return std::floor(x); }},
    {"ceil", [](long double x) { return std::ceil(x); }},
    {"trunc", [](long double x) { return std::trunc(x); }},
    {"tanh", [](long double x) { return std::tanh(x); }},
    {"erf", [](long double x) { return std::erf(x); }},
    {"erfc", [](long double x) { return std::erfc(x); }},
    {"softplus", [](long double x) { return x > 20 ? x : std::log1p(std::exp(x)); }},
    {"elu", [](long double x) { return x > 0 ? x : std::expm1(x); }},
    // 0 where e^-x is above all doubles, as in PyTorch.
    {"sigmoid", [](long double x) { return x < -709.7827L ? 0 : 1 / (1 + std::exp(-x)); }},
};

// In f64, with each instruction set: within some units in the last place of the exact result, with
// the same NaN, infinities and zeros.
TEST(WideFunctions, InDoubleAreWithinSomeUnits) {
  constexpr double kUnits = 8;
  std::vector<double> x;
  const auto count = static_cast<uint64_t>(case_count(20011));
  for (uint64_t i = 0; i < count; ++i) x.push_back(std::bit_cast<double>(i * (UINT64_MAX / count)));
  Chance chance(4);
  for (uint64_t i = 0; i < count; ++i)
    x.push_back(static_cast<double>(chance.below(2000001) - 1000000) * (chance.chance(50) ? 1e-6
                                                                        : chance.chance(50)
                                                                            ? 1e-3
                                                                            : 0.0298));
  for (int i = -40; i <= 40; ++i)
    for (const double unit : {std::numbers::pi / 2, 0.5, 1.0, std::numbers::ln2})
      for (const double toward : {-1e300, 0.0, 1e300})
        x.push_back(std::nextafter(i * unit, toward));
  for (const double end : {0.0, 1.0, 700.0, 745.2, 30000.0, 1e300, double{INFINITY}})
    x.insert(x.end(), {end, -end});
  const auto n = static_cast<int64_t>(x.size());
  for (const Isa isa : kIsas) {
    if (!supports(isa)) continue;
    limit_isa(isa);
    for (const LongFunction& f : kLongFunctions) {
      Graph g;
      g.output("y", g.call(f.op, {g.input("x", f64, {n})}));
      Session session =
          must(Session::create(must(Model::from_graph(std::move(g))), {.threads = 2}));
      ASSERT_TRUE(session.set_input("x", view(x, {n})).ok());
      ASSERT_TRUE(session.run().ok());
      const double* y = must(session.output("y")).as<double>();
      int shown = 0;
      for (size_t i = 0; i < x.size() && shown < 5; ++i) {
        const long double exact = f.of(x[i]);
        const auto rounded = static_cast<double>(exact);
        const double unit = std::nextafter(std::abs(rounded), INFINITY) - std::abs(rounded);
        const bool is_right =
            std::isnan(rounded) ? std::isnan(y[i])
            : std::isinf(rounded) || rounded == 0
                ? y[i] == rounded && std::signbit(y[i]) == std::signbit(rounded)
                : std::abs(static_cast<long double>(y[i]) - exact) <= kUnits * unit;
        if (is_right) continue;
        ADD_FAILURE() << f.op << " (instruction set " << static_cast<int>(isa) << ")"
                      << " of " << x[i] << ": " << y[i] << " for " << rounded;
        ++shown;
      }
    }
  }
  limit_isa(kBestIsa);
}

// In f64, within some units in the last place, or of 1 where terms cancel.
TEST(WideFunctions, ActivationsOfDoubles) {
  constexpr LongFunction kActivations[] = {
      {"log_sigmoid", [](long double x) { return -std::log1p(std::exp(-x)); }},
      {"mish", [](long double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {"silu", [](long double x) { return x / (1 + std::exp(-x)); }},
      {"logit", [](long double x) { return std::log(x / (1 - x)); }},
  };
  std::vector<double> x;
  for (int i = -70000; i <= 70000; i += 7) x.insert(x.end(), {i * 1e-2, i * 1e-5, i * 1e-7 + 0.5});
  for (const Isa isa : kIsas) {
    if (!supports(isa)) continue;
    limit_isa(isa);
    for (const LongFunction& f : kActivations) {
      const std::vector<double> y = computed<double>(f.op, {x});
      for (size_t i = 0; i < x.size(); ++i) {
        const auto exact = static_cast<double>(f.of(x[i]));
        if (std::isnan(exact)) {
          ASSERT_TRUE(std::isnan(y[i])) << f.op << " of " << x[i];
          continue;
        }
        const double unit = std::nextafter(std::abs(exact), INFINITY) - std::abs(exact);
        const bool cancels = f.op == std::string_view("logit");
        if (std::isinf(exact))
          ASSERT_EQ(y[i], exact) << f.op << " of " << x[i];
        else
          ASSERT_NEAR(y[i], exact, cancels ? std::max(8 * unit, 1e-15) : 8 * unit)
              << f.op << " of " << x[i];
      }
    }
  }
  limit_isa(kBestIsa);
}

// In f32, against the series in f64.
TEST(WideFunctions, BesselIOfAllSizes) {
  std::vector<float> x;
  Chance chance(7);
  for (int64_t i = case_count(100003); i > 0; --i) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(chance.below(int64_t{1} << 32))));
    x.push_back(static_cast<float>(chance.below(2000001) - 1000000) *
                (chance.chance(50) ? 1e-5f : 1e-4f));
    if (std::isnan(x[x.size() - 2])) x[x.size() - 2] = NAN;
  }
  const std::vector<double> wide(x.begin(), x.end());
  for (const char* op : {"bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e"}) {
    const std::vector<float> y = computed<float>(op, {x});
    const std::vector<double> exact = computed<double>(op, {wide});
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_TRUE(is_close(y[i], static_cast<float>(exact[i])))
          << op << " of " << x[i] << ": " << y[i] << " for " << exact[i];
  }
}

// e^x K_0 and e^x K_1 of sizes that series, integral and asymptotic series compute, by SciPy 1.17.
TEST(WideFunctions, BesselKOfAllSizes) {
  constexpr double kCases[][3] = {
      {1e-300, 690.8914594138721, 9.999999999999999e+299},
      {1e-100, 230.374440815063, 1e+100},
      {1e-08, 18.536612444976903, 100000000.99999991},
      {0.3, 1.8526273007720155, 4.12515776224447},
      {1.0, 1.1444630798068947, 1.636153486263258},
      {1.5, 0.9582100532948961, 1.2431658735525528},
      {29.5, 0.22979408372535615, 0.2336569552598947},
      {30.5, 0.22602597602311958, 0.2297018962111706},
      {1500.0, 0.03235773618383394, 0.032368520299440394},
      {1000000.0, 0.0012533139806513213, 0.0012533146073081549},
      {1e+300, 1.2533141373155004e-150, 1.2533141373155002e-150},
  };
  for (const auto& [x, k0e, k1e] : kCases) {
    const double unscaled = std::exp(-x);
    const std::pair<const char*, double> functions[] = {{"bessel_k0e", k0e},
                                                        {"bessel_k1e", k1e},
                                                        {"bessel_k0", k0e * unscaled},
                                                        {"bessel_k1", k1e * unscaled}};
    for (const auto& [op, exact] : functions) {
      Graph g;
      g.output("y", g.call(op, {g.input("x", f64, {1})}));
      Session session = must(Session::create(must(Model::from_graph(std::move(g)))));
      const std::vector<double> given = {x};
      ASSERT_TRUE(session.set_input("x", view(given, {1})).ok());
      ASSERT_TRUE(session.run().ok());
      EXPECT_NEAR(must(session.output("y")).as<double>()[0], exact, 1e-13 * exact)
          << op << " of " << x;
    }
  }
}

template <class T>
std::vector<std::vector<T>> pairs_of(int64_t seed) {
  Chance chance(seed);
  const auto any = [&] {
    if constexpr (sizeof(T) == 4)
      return std::bit_cast<float>(static_cast<uint32_t>(chance.below(int64_t{1} << 32)));
    else
      return std::bit_cast<double>(static_cast<uint64_t>(chance.below(int64_t{1} << 32)) << 32 |
                                   static_cast<uint64_t>(chance.below(int64_t{1} << 32)));
  };
  const auto number = [&] {
    constexpr T kEnds[] = {T(0),         T(-0.0),   T(1),
                           T(-1),        INFINITY,  -INFINITY,
                           T(NAN),       T(1e-40f), std::numeric_limits<T>::max(),
                           T(0x1p-1060), T(1e-290), T(1e160)};
    const auto size = static_cast<T>(chance.below(2000001) - 1000000);
    return chance.chance(20)   ? kEnds[chance.below(std::size(kEnds))]
           : chance.chance(40) ? size * (chance.chance(50) ? T(1e-6) : T(1e-3))
                               : any();
  };
  std::vector<std::vector<T>> inputs(2);
  for (int64_t i = case_count(300007); i > 0; --i) {
    const T b = number();
    T a = number();
    // Whole multiples, and the neighboring floats.
    if (chance.chance(40)) a = b * static_cast<T>(chance.below(int64_t{1} << chance.below(32)));
    if (chance.chance(30)) a = std::nextafter(a, chance.chance(50) ? T(INFINITY) : T(-INFINITY));
    inputs[0].push_back(std::isnan(a) ? T(NAN) : a);  // no signaling NaN
    inputs[1].push_back(std::isnan(b) ? T(NAN) : b);
  }
  return inputs;
}

TEST(WideFunctions, OfTwoNumbersAreThoseOfTheCLibrary) {
  const std::vector<std::vector<float>> inputs = pairs_of<float>(2);
  for (const FunctionOfTwo<double>& f : kFunctionsOfTwo<double>) {
    const std::vector<float> y = computed(f.op, inputs);
    for (size_t i = 0; i < y.size(); ++i) {
      const double exact = f.of(double{inputs[0][i]}, double{inputs[1][i]});
      ASSERT_TRUE(is_close(y[i], static_cast<float>(exact)))
          << f.op << "(" << inputs[0][i] << ", " << inputs[1][i] << "): " << y[i] << " for "
          << exact;
    }
  }
}

// In f64. A sum of logarithms near 0 has the absolute error of its terms.
TEST(WideFunctions, OfTwoDoublesAreWithinSomeUnits) {
  const std::vector<std::vector<double>> inputs = pairs_of<double>(5);
  for (const FunctionOfTwo<long double>& f : kFunctionsOfTwo<long double>) {
    const std::vector<double> y = computed(f.op, inputs);
    for (size_t i = 0; i < y.size(); ++i) {
      const long double exact = f.of(inputs[0][i], inputs[1][i]);
      const double rounded = static_cast<double>(exact), size = std::abs(rounded);
      const double unit = std::nextafter(size, INFINITY) - size;
      const double most =
          f.op == std::string_view("logaddexp") ? std::max(8 * unit, 1e-15) : 8 * unit;
      const bool is_right = std::isnan(rounded)   ? std::isnan(y[i])
                            : std::isinf(rounded) ? y[i] == rounded
                                                  : std::abs(y[i] - exact) <= most;
      ASSERT_TRUE(is_right) << f.op << "(" << inputs[0][i] << ", " << inputs[1][i] << "): " << y[i]
                            << " for " << rounded;
    }
  }
}

template <class T>
void expect_exact_divisions(int64_t seed) {
  const std::vector<std::vector<T>> inputs = pairs_of<T>(seed);
  for (const FunctionOfTwo<T>& f : kDivisions<T>) {
    const std::vector<T> y = computed(f.op, inputs);
    for (size_t i = 0; i < y.size(); ++i) {
      const T want = f.of(inputs[0][i], inputs[1][i]);
      ASSERT_TRUE(std::isnan(want) ? std::isnan(y[i])
                                   : y[i] == want && std::signbit(y[i]) == std::signbit(want))
          << f.op << "(" << inputs[0][i] << ", " << inputs[1][i] << "): " << y[i] << " for "
          << want;
    }
  }
}
TEST(WideFunctions, DivisionsAreExact) {
  expect_exact_divisions<float>(3);
  expect_exact_divisions<double>(6);
}

// With each instruction set, within three units in the last place of the power, the sum and the
// factor.
TEST(WideFunctions, SoftmaxOfDoubles) {
  for (const Isa isa : kIsas) {
    if (!supports(isa)) continue;
    limit_isa(isa);
    for (const double step : {1e-9, 0.37, 1.7, 9.1}) {
      std::vector<double> x;
      for (int i = 0; i < 77; ++i) x.push_back(3 - step * (i * 31 % 77));  // the maximum is 3
      x.insert(x.end(), {-INFINITY, -1e300, 3 - 709.0});
      Graph g;
      const Value in = g.input("x", f64, {static_cast<int64_t>(x.size())});
      g.output("y", softmax(in));
      g.output("log", log_softmax(in));
      Session session =
          must(Session::create(must(Model::from_graph(std::move(g))), {.threads = 1}));
      ASSERT_TRUE(session.set_input("x", view(x, {static_cast<int64_t>(x.size())})).ok());
      ASSERT_TRUE(session.run().ok());
      const Tensor y = must(session.output("y")), log = must(session.output("log"));
      long double sum = 0;
      for (const double each : x) sum += std::exp(static_cast<long double>(each - 3));
      for (size_t i = 0; i < x.size(); ++i) {
        const auto want = static_cast<double>(std::exp(static_cast<long double>(x[i] - 3)) / sum);
        ASSERT_NEAR(y.as<double>()[i], want, want < 1e-300 ? 1e-300 : want * 7e-16) << x[i];
        const auto low = static_cast<double>(x[i] - 3 - std::log(sum));
        if (std::isinf(low))
          ASSERT_EQ(log.as<double>()[i], low);
        else
          ASSERT_NEAR(log.as<double>()[i], low, std::abs(low) * 3e-16 + 1e-15) << x[i];
      }
      ASSERT_EQ(y.as<double>()[77], 0);
    }
  }
  limit_isa(kBestIsa);
}

// Lines of each length, and results in the memory of their inputs.
TEST(WideFunctions, LinesOfEachLength) {
  for (int64_t n = 0; n < 40; ++n) {
    std::vector<float> x;
    for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<float>(i % 7 == 6 ? 1e30 : i));
    Graph g;
    const Value in = g.input("x", f32, {n});
    g.output("y", g.call("sin", {g.call("sin", {in * 1.0})}));
    Session session = must(Session::create(must(Model::from_graph(std::move(g))), {.threads = 1}));
    ASSERT_TRUE(session.set_input("x", view(x, {n})).ok());
    ASSERT_TRUE(session.run().ok());
    const Tensor y = must(session.output("y"));
    for (int64_t i = 0; i < n; ++i) {
      const auto first = static_cast<float>(std::sin(double{x[size_t(i)]}));
      ASSERT_TRUE(is_close(y.as<float>()[i], static_cast<float>(std::sin(double{first}))));
    }
  }
}

}  // namespace
}  // namespace hg::test
