// SPDX-License-Identifier: Apache-2.0
// Random lazy expressions against the same graph built and run by hand, bit by bit. Gradients,
// whose terms may be added in another order, are compared with that graph's gradients and with
// finite differences.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/lazy_ops.h"
#include "hg/train.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

// Functions that are smooth around [-1, 1], with values of about the same range.
struct Operation {
  const char* op;
  int inputs;
};
constexpr Operation kOperations[] = {{"add", 2},  {"sub", 2},     {"mul", 2},  {"sin", 1},
                                     {"tanh", 1}, {"sigmoid", 1}, {"cos", 1},  {"neg", 1},
                                     {"erf", 1},  {"hypot", 2},   {"atan2", 2}};

struct Pair {
  Var var;
  Value value;
};

class Maker {
 public:
  explicit Maker(int seed) : random_(static_cast<unsigned>(seed)) {
    const int leaves = 1 + below(3);
    for (int i = 0; i < leaves; ++i) {
      Sizes shape;
      const int rank = below(3);
      for (int d = 0; d < rank; ++d) shape.push_back(below(4) == 0 ? 1 : kSizes[d]);
      Array array = *Array::allocate(f64, shape);
      for (int64_t k = 0; k < array.count(); ++k) array.tensor().as<double>()[k] = uniform();
      arrays.push_back(array);
      leaves_.push_back(Var(array, lazy));
      values_.push_back(graph.input("x" + std::to_string(i), f64, to_shape(shape)));
      pool_.push_back({leaves_.back(), values_.back()});
    }
    const int nodes = 1 + below(12);
    for (int i = 0; i < nodes; ++i) add();
    y = pool_.back();
    if (below(2) == 0) y = {lazy::mean(y.var, {}), graph.call("mean", {y.value})};
  }

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  double uniform() { return std::uniform_real_distribution<double>(-1, 1)(random_); }

  // The value of the graph.
  Array by_hand(const Value& value) {
    Graph copy = graph;
    copy.output("y", copy.value(value.id()));
    Session session = *Session::create(*Model::from_graph(std::move(copy)));
    for (size_t i = 0; i < arrays.size(); ++i)
      EXPECT_TRUE(session.set_input(static_cast<int>(i), arrays[i]).ok());
    must(session.run());
    return *Array::copy_of(*session.output(0));
  }

  Lazy lazy{SessionOptions{.threads = 1}};
  Graph graph;
  std::vector<Array> arrays;
  Pair y;
  const std::vector<Var>& leaves() const { return leaves_; }
  const std::vector<Value>& values() const { return values_; }

 private:
  static constexpr int64_t kSizes[] = {3, 4};

  const Pair& pick() { return pool_[below(static_cast<int>(pool_.size()))]; }

  void add() {
    const Operation& operation = kOperations[below(static_cast<int>(std::size(kOperations)))];
    std::vector<Var> vars;
    std::vector<Value> values;
    for (int i = 0; i < operation.inputs; ++i) {
      const Pair& one = pick();
      vars.push_back(one.var);
      values.push_back(one.value);
    }
    const std::string op = operation.op;
    if (op == "hypot" || op == "atan2") {  // keep away from the origin
      vars[1] = vars[1] * vars[1] + 1;
      values[1] = values[1] * values[1] + 1.0;
    }
    if (operation.inputs == 2 && below(4) == 0 && op != "hypot") {  // one operand is a number
      const double number = below(5) - 2 + 0.5;
      const int side = below(2);
      vars[side] = number;
      values[side] = graph.scalar(number, f64);
      if (op == "atan2") return;
    }
    const Value made = graph.call(op, values);
    if (!graph.status().ok()) {  // shapes that do not broadcast
      (void)graph.take_status();
      return;
    }
    pool_.push_back({Var::one(op, vars), made});
  }

  std::mt19937 random_;
  std::vector<Var> leaves_;
  std::vector<Value> values_;
  std::vector<Pair> pool_;
};

void expect_same_bits(const Array& a, const Array& b) {
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_EQ(std::memcmp(a.tensor().data, b.tensor().data, a.bytes()), 0);
}

double sum_of(const Array& array) {
  double sum = 0;
  for (int64_t i = 0; i < array.count(); ++i) sum += array.as<double>()[i];
  return sum;
}

// Derivatives along random directions against central differences.
void expect_jvp(Maker& maker) {
  std::vector<Var> directions;
  std::vector<Array> along;
  for (const Array& array : maker.arrays) {
    along.push_back(*Array::allocate(f64, array.shape()));
    for (int64_t k = 0; k < array.count(); ++k)
      along.back().tensor().as<double>()[k] = maker.uniform();
    directions.push_back(Var(along.back(), maker.lazy));
  }
  const Array slope = must(jvp({&maker.y.var, 1}, maker.leaves(), directions)[0].value());
  const auto moved = [&](double step) {
    for (size_t i = 0; i < along.size(); ++i)
      for (int64_t k = 0; k < along[i].count(); ++k)
        maker.arrays[i].tensor().as<double>()[k] += step * along[i].as<double>()[k];
    return *maker.y.var.value();
  };
  const double step = 1e-5;
  const Array above = moved(step), below = moved(-2 * step);
  moved(step);
  ASSERT_EQ(slope.shape(), above.shape());
  for (int64_t k = 0; k < above.count(); ++k) {
    const double wanted = (above.as<double>()[k] - below.as<double>()[k]) / (2 * step);
    EXPECT_NEAR(slope.as<double>()[k], wanted, 1e-6 * (1 + std::abs(wanted)));
  }
}

TEST(LazyRandom, IsTheGraphAndItsGradient) {
  test::for_cases(300, [](uint64_t seed) {
    Maker maker(static_cast<int>(seed));
    const Array y = must(maker.y.var.value());
    ASSERT_EQ(maker.y.var.shape(), y.shape());
    expect_same_bits(y, maker.by_hand(maker.y.value));

    const std::vector<Var> slopes = grad(maker.y.var, maker.leaves());
    const std::vector<Array> found = must(evaluate(slopes));
    const std::vector<Value> by_hand = grad(std::span(&maker.y.value, 1), maker.values());
    ASSERT_TRUE(maker.graph.status().ok()) << maker.graph.status().message();
    for (size_t i = 0; i < maker.arrays.size(); ++i) {
      const Array dx = maker.by_hand(by_hand[i]);
      ASSERT_EQ(found[i].shape(), dx.shape());
      for (int64_t k = 0; k < dx.count(); ++k)
        ASSERT_NEAR(found[i].as<double>()[k], dx.as<double>()[k],
                    1e-13 * (1 + std::abs(dx.as<double>()[k])));
      if (maker.arrays[i].count() == 0) continue;
      const int64_t k = maker.below(static_cast<int>(maker.arrays[i].count()));
      double& x = maker.arrays[i].tensor().as<double>()[k];
      const double kept = x, step = 1e-5;
      x = kept + step;
      const double above = sum_of(*maker.y.var.value());
      x = kept - step;
      const double below = sum_of(*maker.y.var.value());
      x = kept;
      const double slope = (above - below) / (2 * step);
      EXPECT_NEAR(found[i].as<double>()[k], slope, 1e-6 * (1 + std::abs(slope)));
    }
    expect_jvp(maker);
    if (testing::Test::HasFailure()) ADD_FAILURE() << maker.y.var.text();
  });
}

}  // namespace
}  // namespace hg
