// SPDX-License-Identifier: Apache-2.0
// How far a model's result may differ if rounding decides between quantization levels.
#include "converter/check/conditioning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "hg/ops.h"
#include "hg/session.h"

namespace hg::convert {
namespace {

using Where = Conditioning::Where;
constexpr int64_t kCount = 1000;
constexpr float kScale = 0.0371F;

// Levels of w x. Half of the products lie in the middle between two levels, where the last place of
// x decides.
Model quantising() {
  Graph g;
  const Value x = g.input("x", f32, {Dim(kCount)});
  TensorData weight = *TensorData::allocate(f32, {kCount});
  std::fill_n(weight.tensor.as<float>(), kCount, 1.0F);
  const Value scale = g.scalar(double{kScale});
  g.output("y", round(x * g.parameter("w", std::move(weight)) / scale) * scale);
  return *Model::from_graph(std::move(g));
}

Inputs middles() {
  Inputs inputs;
  inputs.data.push_back(*TensorData::allocate(f32, {kCount}));
  for (int64_t i = 0; i < kCount; ++i)
    inputs.data[0].tensor.as<float>()[i] =
        kScale * (static_cast<float>(i % 7) + (i % 2 == 0 ? 0.5F : 0.1F));
  return inputs;
}

class ConditioningTest : public ::testing::Test {
 protected:
  ConditioningTest() {
    Session session = *Session::create(model_);
    EXPECT_TRUE(session.set_input("x", inputs_.data[0].tensor).ok());
    EXPECT_TRUE(session.run().ok());
    plain_ = *TensorData::copy_of(*session.output("y"));
    ours_ = *TensorData::copy_of(plain_.tensor);
  }
  void step(int64_t i, float levels) { ours_.tensor.as<float>()[i] += levels * kScale; }
  bool excused(Where where) const {
    return !conditioning_.excuse(0, ours_.tensor, plain_.tensor, where).empty();
  }

  Model model_ = quantising();
  Inputs inputs_ = middles();
  Conditioning conditioning_{model_, inputs_};
  TensorData plain_, ours_;
};

TEST_F(ConditioningTest, ElementsInTheMiddleMayBeALevelOff) {
  for (int64_t i = 0; i < 100; i += 2) step(i, i % 4 == 0 ? 1 : -1);
  EXPECT_TRUE(excused(Where::anywhere));
}

TEST_F(ConditioningTest, OthersMayOnlyWhereLevelsMayMoveAnywhere) {
  for (int64_t i = 1; i < 100; i += 2) step(i, 1);
  EXPECT_TRUE(excused(Where::anywhere));
  EXPECT_FALSE(excused(Where::there));
}

TEST_F(ConditioningTest, NoneMayBeManyLevelsOff) {
  step(10, 5);
  EXPECT_FALSE(excused(Where::anywhere));
}

TEST_F(ConditioningTest, MoreThanMoveMayNot) {
  for (int64_t i = 0; i < 600; ++i) step(i, 1);
  EXPECT_FALSE(excused(Where::anywhere));
}

TEST_F(ConditioningTest, AnInfiniteElementMayNot) {
  ours_.tensor.as<float>()[0] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(excused(Where::anywhere));
  ours_.tensor.as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(excused(Where::anywhere));
}

}  // namespace
}  // namespace hg::convert
