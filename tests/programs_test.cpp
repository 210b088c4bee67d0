// SPDX-License-Identifier: Apache-2.0
// Pointwise programs: how elementwise nodes become one, what it computes, and its text.
#include <gtest/gtest.h>

#include "hg/hg.h"
#include "tests/compiled.h"

namespace hg {
namespace {

// f32[n, 300] and f32[300], through dtypes, broadcasts, optional inputs and 16-bit floats.
Graph elementwise_chains() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 300}), row = g.input("row", f32, {300});
  const Value scaled_row = scaled(row, 0.5);
  const Value sum = g.call("add", {x, scaled_row});
  const Value half = g.call("sigmoid", {g.call("cast", {sum}, {{"dtype", f16}})});
  const Value wide = g.call("cast", {g.call("mul", {half, half})}, {{"dtype", f32}});
  g.output("y", g.call("clamp", {g.call("tanh", {wide}), Value(), scaled_row}));
  const Value positive = g.call("gt", {x, row});
  g.output("z", g.call("where", {positive, g.call("exp", {x}), row}));
  return g;
}

TEST(Programs, JoinElementwiseNodes) {
  EXPECT_EQ(compiled(elementwise_chains()),
            "  mul_1 = mul(row, constant) : f32[300]\n"
            "  clamp_1 = pointwise_program(x, mul_1, program=\"add x0 x1; cast s0 dtype=f16; "
            "sigmoid s1; mul s2 s2; cast s3 dtype=f32; tanh s4; clamp s5 - x1\") : f32[n, 300]\n"
            "  where_1 = pointwise_program(x, row, program=\"gt x0 x1; exp x0; where s0 s1 x1\") : "
            "f32[n, 300]\n");
  EXPECT_EQ(compiled(elementwise_chains(), {.disabled_passes = {"programs"}}).find("program"),
            std::string::npos);
}

TEST(Programs, ComputeTheSameBits) {
  const auto run = [](Options options) {
    const Model model = *Model::from_graph(elementwise_chains());
    Session session = *Session::create(model, std::move(options));
    std::vector<float> x(100 * 300), row(300);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 1009) / 90 - 5;
    for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i * 7 % 31) / 9 - 1;
    EXPECT_TRUE(session.set_input(0, view(x, {100, 300})).ok());
    EXPECT_TRUE(session.set_input(1, view(row, {300})).ok());
    EXPECT_TRUE(session.run().ok());
    std::vector<float> values;
    for (int k = 0; k < 2; ++k) {
      const Tensor y = *session.output(k);
      values.insert(values.end(), y.as<float>(), y.as<float>() + y.count());
    }
    return values;
  };
  const std::vector<float> plain = run({.threads = 1, .disabled_passes = {"programs"}});
  EXPECT_EQ(run({.threads = 1}), plain);
  EXPECT_EQ(run({.threads = 3}), plain);
}

TEST(Programs, LeaveWhatOthersRead) {
  Graph g;
  const Value x = g.input("x", f32, {4}), s = g.input("s", f32, {});
  const Value e = g.call("exp", {x});
  g.output("e", e);
  // Of another shape than the result: computed once, not for every element.
  const Value small = g.call("exp", {g.call("neg", {s})});
  g.output("y", g.call("sigmoid", {g.call("mul", {g.call("tanh", {e}), small})}));
  EXPECT_EQ(compiled(std::move(g)),
            "  exp_1 = exp(x) : f32[4]\n"
            "  exp_2 = pointwise_program(s, program=\"neg x0; exp s0\") : f32[]\n"
            "  sigmoid_1 = pointwise_program(exp_1, exp_2, program=\"tanh x0; mul s0 x1; sigmoid "
            "s1\") : f32[4]\n");
}

TEST(Programs, HaveGradients) {
  const auto gradient = [](bool as_program) {
    Graph g;
    const Value x = g.input("x", f32, {2, 3}), y = g.input("y", f32, {3});
    const Value z =
        as_program
            ? g.call("pointwise_program", {x, y},
                     {{"program", "mul x0 x1; leaky_relu s0 negative_slope=0.5; exp s1"}})
            : g.call("exp",
                     {g.call("leaky_relu", {g.call("mul", {x, y})}, {{"negative_slope", 0.5}})});
    g.output("dy", gradients(g.call("sum", {z}), {y})[0]);
    EXPECT_TRUE(g.status().ok()) << g.status().message();
    const Model model = *Model::from_graph(std::move(g));
    Session session = *Session::create(model);
    std::vector<float> xs = {1, -2, 3, -4, 5, -6}, ys = {0.5f, 0.25f, -0.125f};
    EXPECT_TRUE(session.set_input(0, view(xs, {2, 3})).ok());
    EXPECT_TRUE(session.set_input(1, view(ys, {3})).ok());
    EXPECT_TRUE(session.run().ok());
    const Tensor dy = *session.output(0);
    return std::vector<float>(dy.as<float>(), dy.as<float>() + dy.count());
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(Programs, SayWhatIsWrongWithThem) {
  const auto message = [](const char* program) {
    Graph g;
    (void)g.call("pointwise_program", {g.input("x", f32, {4})}, {{"program", program}});
    return std::string(g.status().message());
  };
  const auto expect = [&](const char* program, const char* part) {
    EXPECT_NE(message(program).find(part), std::string::npos) << message(program);
  };
  expect("", "it has no step");
  expect("wave x0", "step 0 is the unknown op 'wave'");
  expect("neg x1", "step 0, neg, reads 'x1' of 1 inputs and 0 steps before it");
  expect("neg x0; add s0 s1", "step 1, add, reads 's1' of 1 inputs and 1 steps before it");
  expect("add x0", "step 0, add, has 1 inputs, not 2");
  expect("neg x0 slope=2", "step 0, neg, has no attribute in 'slope=2'");
  expect("elu x0 alpha=big", "step 0, elu, cannot have 'alpha=big'");
  EXPECT_EQ(message("elu x0 alpha=2.5; neg s0"), "");
}

}  // namespace
}  // namespace hg
