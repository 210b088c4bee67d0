// SPDX-License-Identifier: Apache-2.0
// Named models as JSON: a written model reads back equal, and errors are named.
#include "hg/block_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "hg/create.h"
#include "tests/support/must.h"
#include "tests/nn/random_named.h"

namespace hg {
namespace {

using nn::block_from_json;

// Write, read, write again.
void expect_equal_after(const nn::Block& model) {
  const std::string text = must(nn::to_json(model));
  const Result<nn::Block> back = block_from_json(text);
  ASSERT_TRUE(back.ok()) << back.status().message() << "\n" << text;
  EXPECT_TRUE(*back == model) << text;
  EXPECT_EQ(*nn::to_json(*back), text);
}

TEST(BlockJson, EveryLayerAndEveryWire) {
  const nn::Block group =
      nn::Group{nn::Input("x", {"n", 3, 8, 8}),
                nn::Conv2d(8, {3, 5}, {.padding = {1, 2}}),
                nn::BatchNorm2d().named("norm"),
                nn::ReLU(),
                nn::Dropout(0.25),
                nn::GELU(),
                nn::Call("mean", {{"dim", {2, 3}}}).output("pooled"),
                nn::Linear(5).input("pooled").output("scores"),
                nn::LayerNorm({5}),
                nn::Linear(5).share("scores"),
                nn::Softmax(-1).output("classes"),
                nn::MSELoss(Reduction::sum).input("classes").input("scores").output("loss"),
                nn::Group{nn::Embedding(10, 3, -1).input("words"), nn::Tanh(), nn::Sigmoid()}
                    .input("ids", "words")
                    .output("vectors", "0"),
                nn::Input("ids", {"n", Dim("m") * 2 + 1}, i64)};
  expect_equal_after(group.output("loss").output("vectors"));
}

TEST(BlockJson, SettingsOfEveryKind) {
  expect_equal_after(nn::Call("odd", {{"flag", true},
                                      {"number", 3},
                                      {"real", 2.0},
                                      {"tiny", 0.1},
                                      {"far", std::numeric_limits<double>::infinity()},
                                      {"size", Dim("n") * 2 + 1},
                                      {"dtype", f16},
                                      {"word", "n"},
                                      {"none", Attr()},
                                      {"sizes", {1, "n", 3}},
                                      {"reals", std::vector<double>{1, 0.1, -0.0}},
                                      {"no_reals", std::vector<double>{}},
                                      {"words", std::vector<std::string>{"a", "b"}},
                                      {"large", std::numeric_limits<int64_t>::max()}}));
}

TEST(BlockJson, ConstantsKeepEveryBit) {
  for (const DType dtype : {f32, f64, f16, bf16, i64, i32, i16, i8, u8, boolean}) {
    const Array numbers = *cast(*arange(0, 6), dtype);
    expect_equal_after(nn::Constant("c", *numbers.reshape({2, 3})));
    expect_equal_after(nn::Constant("c", *numbers.narrow(0, 1, 1)));
    expect_equal_after(nn::Constant("c", *zeros({0, 3}, dtype)));
    expect_equal_after(nn::Constant("c", *ones({}, dtype)));
  }
  for (const DType dtype : {f32, f64, f16, bf16})
    expect_equal_after(nn::Constant("c", *randn({100}, 1, dtype)));
  const std::vector<double> edges = {HUGE_VAL, -HUGE_VAL, -0.0, 5e-324, 1.7976931348623157e308};
  expect_equal_after(nn::Constant("c", *Array::copy_of(view(edges, {5}))));
  EXPECT_FALSE(nn::to_json(nn::Constant("c", *zeros({2}, c64))).ok());
}

TEST(BlockJson, RandomNetworks) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const test::RandomNamed random(seed);
    expect_equal_after(random.model);
    if (testing::Test::HasFailure()) FAIL() << seed;
  }
}

TEST(BlockJson, ModelsByHandRun) {
  const nn::Block model = must(block_from_json(R"({"type": "Group", "blocks": [
      {"type": "Input", "name": "x", "settings": {"shape": ["n", 4]}},
      {"type": "Linear", "settings": {"out_features": 3}, "inputs": ["x"], "outputs": ["hidden"]},
      {"type": "Call", "settings": {"op": "mean", "dim": [1]}, "outputs": ["y"]}]})"));
  nn::Program program = *nn::compile(model);
  const NamedArrays parameters = *program.initial_parameters();
  EXPECT_EQ((*program.evaluate(parameters, {{"x", *ones({2, 4})}}))["y"].shape(), (Sizes{2}));
}

TEST(BlockJson, WhatIsWrongIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no JSON"},
      {"{", "no JSON"},
      {"[]", "a block is an object"},
      {"{}", "no type"},
      {R"({"type": 3})", "at type"},
      {R"({"type": "Group", "wires": []})", "at wires"},
      {R"({"type": "Group", "blocks": {}})", "at blocks"},
      {R"({"type": "Group", "blocks": [{"type": "ReLU"}, 3]})", "at blocks[1]"},
      {R"({"type": "ReLU", "inputs": "x"})", "at inputs"},
      {R"({"type": "ReLU", "inputs": [{"outside": "x"}]})", "at inputs"},
      {R"({"type": "ReLU", "settings": []})", "at settings"},
      {R"({"type": "ReLU", "settings": {"a": {"odd": 1}}})", "at settings.a"},
      {R"({"type": "ReLU", "settings": {"a": {"dtype": "f7"}}})", "at settings.a"},
      {R"({"type": "ReLU", "settings": {"a": ["n +"]}})", "at settings.a"},
      {R"({"type": "ReLU", "settings": {"a": 18446744073709551615}})", "beyond 64 bits"},
      {R"({"type": "Constant", "value": {"dtype": "f32", "shape": [2], "data": [1]}})", "[2]"},
      {R"({"type": "Constant", "value": {"dtype": "u8", "shape": [1], "data": [300]}})", "300"},
      {R"({"type": "Constant", "value": {"dtype": "f32", "shape": [-1], "data": []}})", "-1"},
      {R"({"type": "Constant", "value": {"dtype": "bool", "shape": [1], "data": [1]}})", "true"},
  };
  for (const auto& [text, part] : cases) {
    const Result<nn::Block> block = block_from_json(text);
    ASSERT_FALSE(block.ok()) << text;
    EXPECT_NE(block.status().message().find(part), std::string::npos) << text << "\n"
                                                                      << block.status().message();
  }
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += R"({"type": "Group", "blocks": [)";
  for (int i = 0; i < 5000; ++i) deep += "]}";
  EXPECT_FALSE(block_from_json(deep).ok());
}

}  // namespace
}  // namespace hg
