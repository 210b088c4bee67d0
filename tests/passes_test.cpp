// SPDX-License-Identifier: Apache-2.0
// Passes, as graphs before and after.
#include <gtest/gtest.h>

#include "hg/hg.h"

namespace hg {
namespace {

std::string compiled(Graph graph, Options options = {}) {
  EXPECT_TRUE(graph.status().ok()) << graph.status().message();
  const Model model = *Model::from_graph(std::move(graph));
  Result<Session> session = Session::create(model, std::move(options));
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return "";
  // The nodes and the result, without inputs and states.
  const std::string all = session->compiled_graph().text();
  std::string nodes;
  for (size_t at = 0; at < all.size();) {
    const size_t end = all.find('\n', at);
    const std::string line = all.substr(at, end - at);
    if (line.find(" = ") != std::string::npos && line.find("return") == std::string::npos)
      nodes += line + "\n";
    at = end + 1;
  }
  return nodes;
}

TensorData filled(const Sizes& shape, float value) {
  TensorData data = *TensorData::allocate(f32, shape);
  for (int64_t i = 0; i < data.tensor.count(); ++i) data.tensor.as<float>()[i] = value;
  return data;
}

TEST(Passes, RemoveWhatNothingNeeds) {
  Graph g;
  const Value x = g.input("x", f32, {4});
  (void)g.call("exp", {x});
  g.output("y", g.call("neg", {x}));
  EXPECT_EQ(compiled(std::move(g)), "  neg_1 = neg(x) : f32[4]\n");
}

TEST(Passes, ComputeEqualNodesOnce) {
  Graph g;
  const Value x = g.input("x", f32, {4});
  const Value a = g.call("exp", {g.call("add", {x, g.scalar(1.0)})});
  const Value b = g.call("exp", {g.call("add", {x, g.scalar(1.0)})});
  g.output("y", g.call("mul", {a, b}));
  EXPECT_EQ(compiled(std::move(g)),
            "  add_1 = add(x, constant) : f32[4]\n"
            "  exp_1 = exp(add_1) : f32[4]\n"
            "  mul_1 = mul(exp_1, exp_1) : f32[4]\n");
}

TEST(Passes, FoldConstants) {
  Graph g;
  const Value x = g.input("x", f32, {4});
  const Value c = g.call("mul", {g.constant(filled({4}, 3), "c"), g.scalar(2.0)});
  g.output("y", g.call("add", {x, g.call("neg", {c})}));
  EXPECT_EQ(compiled(g), "  add_1 = add(x, neg_1_folded) : f32[4]\n");
  const std::string off = compiled(std::move(g), {.disabled_passes = {"fold"}});
  EXPECT_NE(off.find("mul_1 = mul(c, constant)"), std::string::npos) << off;
}

TEST(Passes, DoNotFoldWhatARunChanges) {
  Graph g;
  const Value x = g.input("x", f32, {4});
  const Value b = g.buffer("b", filled({4}, 3));
  g.assign(b, g.call("add", {b, x}));
  g.output("y", g.call("neg", {b}));
  EXPECT_NE(compiled(std::move(g)).find("neg_1 = neg(b)"), std::string::npos);
}

Graph conv_norm_relu(bool training) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 3, 8, 8});
  const Value w = g.parameter("w", f32, {5, 3, 3, 3}, init::uniform(-1, 1, 1));
  const Value y = g.call("conv", {x, w}, {{"padding", {1, 1}}});
  const Value mean = g.buffer("mean", filled({5}, 0.5f)), var = g.buffer("var", filled({5}, 2));
  const Value norm = g.calls("batch_norm", {y, Value(), Value(), mean, var},
                             {{"training", training}})[0];
  g.output("y", g.call("relu", {norm}));
  return g;
}

TEST(Passes, FoldBatchNormAndActivationIntoConv) {
  EXPECT_EQ(compiled(conv_norm_relu(false)),
            "  relu_1 = conv(x, w_folded, w_folded_bias, none, padding=[1, 1], "
            "activation=\"relu\") : f32[n, 5, 8, 8]\n");
  EXPECT_NE(compiled(conv_norm_relu(true)).find("batch_norm"), std::string::npos);
}

TEST(Passes, FoldedBatchNormComputesTheSame) {
  const auto run = [](Options options) {
    const Model model = *Model::from_graph(conv_norm_relu(false));
    Session session = *Session::create(model, std::move(options));
    std::vector<float> x(2 * 3 * 8 * 8);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) / 17 - 0.4f;
    EXPECT_TRUE(session.set_input(0, view(x, {2, 3, 8, 8})).ok());
    EXPECT_TRUE(session.run().ok());
    const Tensor y = *session.output(0);
    return std::vector<float>(y.as<float>(), y.as<float>() + y.count());
  };
  const std::vector<float> fused = run({}), plain = run({.keep_all_values = true});
  for (size_t i = 0; i < fused.size(); ++i) ASSERT_NEAR(fused[i], plain[i], 1e-5);
}

TEST(Passes, TakeAResidualIntoTheLaterProduct) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  const Value w = g.parameter("w", f32, {4, 4}, init::uniform(-1, 1, 1));
  const Value v = g.parameter("v", f32, {4, 4}, init::uniform(-1, 1, 2));
  const Value sum = g.call("add", {g.call("linear", {x, w}), g.call("linear", {x, v})});
  g.output("y", g.call("relu", {sum}));
  EXPECT_EQ(compiled(std::move(g)),
            "  linear_1 = linear(x, w, none, none) : f32[n, 4]\n"
            "  relu_1 = linear(x, v, none, linear_1, activation=\"relu\") : f32[n, 4]\n");
}

TEST(Passes, LeaveProductsThatOthersReadAlone) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  const Value w = g.parameter("w", f32, {4, 4}, init::uniform(-1, 1, 1));
  const Value y = g.call("linear", {x, w});
  g.output("y", y);
  g.output("z", g.call("relu", {y}));
  EXPECT_NE(compiled(std::move(g)).find("relu(linear_1)"), std::string::npos);
}

}  // namespace
}  // namespace hg
