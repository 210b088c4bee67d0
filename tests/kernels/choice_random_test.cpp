// SPDX-License-Identifier: Apache-2.0
// Choices by comparisons, limits, and casts of f32 and i64: each form that the kernels compute in
// another way has the bits of the plain form, for every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kFew[] = {kNan, -kInfinity, kInfinity, -0.0F, 0.0F, 1, -1, 0.5F};

class Choices : public Chance {
 public:
  using Chance::Chance;

  std::vector<float> numbers(int64_t n) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& each : x)
      each =
          chance(50) ? kFew[below(std::size(kFew))] : static_cast<float>(below(2000) - 1000) / 64;
    return x;
  }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[below(static_cast<int64_t>(all.size()))];
  }
  int64_t size() { return chance(50) ? below(40) : below(3000); }
};

std::string bytes_of(const Model& model, const std::vector<ConstTensor>& inputs,
                     SessionOptions how) {
  Session session = must(Session::create(model, std::move(how)));
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(session.set_input(static_cast<int>(i), inputs[i]).ok());
  EXPECT_TRUE(session.run().ok());
  const Tensor y = must(session.output(0));
  return std::string(static_cast<const char*>(y.data), static_cast<size_t>(y.bytes()));
}

// Calls check(name of the instruction set) for each that this machine has.
template <class Check>
void for_isas(const Check& check) {
  const Isa best = chosen_isa();
  for (const Isa isa : kIsas) {
    if (!supports(isa)) continue;
    limit_isa(isa);
    check(to_string(isa));
  }
  limit_isa(best);
}

TEST(ChoiceRandom, ByAComparisonHasTheBitsOfTwoOps) {
  for_cases(300, [&](uint64_t seed) {
    Choices random(seed);
    const int64_t n = random.size();
    Graph g;
    std::vector<std::vector<float>> data;
    std::vector<ConstTensor> inputs;
    const auto input = [&](bool is_number) {
      const Sizes shape = is_number ? Sizes{} : Sizes{n};
      data.push_back(random.numbers(shape.count()));
      inputs.push_back(view(data.back(), shape));
      return g.input("", f32, to_shape(shape));
    };
    data.reserve(4);
    const Value a = input(random.chance(10)), b = input(random.chance(50)),
                x = random.chance(30) ? a : input(random.chance(20)),
                y = random.chance(30) ? b : input(false);
    const std::string op = random.one_of<const char*>({"eq", "ne", "lt", "le", "gt", "ge"});
    const Value condition = g.call(op, {a, b});
    g.output("chosen", g.call("where", {condition, g.call("neg", {x}), y}));
    const Model model = must(Model::from_graph(std::move(g)));
    for_isas([&](const auto& isa) {
      const std::string plain =
          bytes_of(model, inputs, {.threads = 1, .disabled_passes = {"programs"}});
      for (const int threads : {1, 2})
        EXPECT_EQ(bytes_of(model, inputs, {.threads = threads}), plain)
            << op << " of " << n << ", " << isa;
    });
  });
}

TEST(ChoiceRandom, NumbersAsLimitsHaveTheBitsOfTensors) {
  for_cases(200, [&](uint64_t seed) {
    Choices random(seed);
    const int64_t n = random.size();
    const std::vector<float> x = random.numbers(n), limits = random.numbers(2);
    const std::vector<float> low(x.size(), limits[0]), high(x.size(), limits[1]);
    const auto model_of = [&](const Sizes& limit) {
      Graph g;
      const Value a = g.input("x", f32, {n}), b = g.input("low", f32, to_shape(limit)),
                  c = g.input("high", f32, to_shape(limit));
      g.output("y", g.call("clamp", {a, b, c}));
      return must(Model::from_graph(std::move(g)));
    };
    const Model numbers = model_of({}), tensors = model_of({n});
    for_isas([&](const auto& isa) {
      const std::string y =
          bytes_of(numbers, {view(x, {n}), view(limits, {}), view(&limits[1], f32, {})}, {});
      EXPECT_EQ(y, bytes_of(tensors, {view(x, {n}), view(low, {n}), view(high, {n})}, {})) << isa;
    });
  });
}

// Numbers of all sizes, most of them in runs that fit into i32.
TEST(ChoiceRandom, CastsOfEachKernelHaveTheSameBits) {
  for_cases(200, [&](uint64_t seed) {
    Choices random(seed);
    const int64_t n = random.size();
    std::vector<float> floats(static_cast<size_t>(n));
    std::vector<int64_t> integers(floats.size());
    int64_t bits = 62;
    for (size_t i = 0; i < floats.size(); ++i) {
      if (random.chance(5)) bits = random.below(63);
      integers[i] = random.below(int64_t{1} << bits) * (random.chance(50) ? 1 : -1);
      floats[i] = random.chance(2) ? kFew[random.below(std::size(kFew))]
                                   : static_cast<float>(integers[i]) * (bits > 60 ? 8.0F : 0.75F);
      if (random.chance(1)) integers[i] = std::numeric_limits<int64_t>::min();
    }
    const auto same = [&](DType from, DType to, const ConstTensor& x) {
      Graph g;
      g.output("y", g.call("cast", {g.input("x", from, {n})}, {{"dtype", to}}));
      const Model model = must(Model::from_graph(std::move(g)));
      const std::string plain = bytes_of(model, {x}, {.kernels = {"cast=pointwise"}});
      for_isas([&](const auto& isa) {
        EXPECT_EQ(bytes_of(model, {x}, {}), plain) << str_cat(from, " to ", to, ", ") << isa;
      });
    };
    same(f32, i64, view(floats, {n}));
    same(i64, f32, view(integers, {n}));
  });
}

}  // namespace
}  // namespace hg::test
