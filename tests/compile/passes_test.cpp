// SPDX-License-Identifier: Apache-2.0
// Passes, as graphs before and after.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hg/hg.h"
#include "lib/graph/activation.h"
#include "tests/support/compiled.h"

namespace hg {
namespace {

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
            "  mul_1 = pointwise_program(x, constant, program=\"add x0 x1; exp s0; mul s1 s1\") : "
            "f32[4]\n");
}

// Vectors are computed if something reads them.
TEST(Passes, DropVectorsThatNothingReads) {
  const auto values_of = [](const char* op, const char* read) {
    Graph g;
    const std::vector<Value> parts = g.calls(op, {g.input("x", f64, {"n", 3, 3})});
    for (size_t i = 0; i < parts.size(); ++i)
      if (std::string(read).find(static_cast<char>('0' + i)) != std::string::npos)
        g.output(str_cat("y", int64_t(i)), parts[i]);
    return compiled(std::move(g));
  };
  EXPECT_EQ(values_of("svd", "1"), "  svd_2 = svdvals(x) : f64[n, 3]\n");
  EXPECT_EQ(values_of("eigh", "0"), "  eigh_1 = eigvalsh(x) : f64[n, 3]\n");
  EXPECT_EQ(values_of("svd", "12").find("svdvals"), std::string::npos);
  EXPECT_EQ(values_of("eigh", "1").find("eigvalsh"), std::string::npos);
}

TEST(Passes, FoldConstants) {
  Graph g;
  const Value x = g.input("x", f32, {4});
  const Value c = g.call("mul", {g.constant(filled({4}, 3), "c"), g.scalar(2.0)});
  g.output("y", g.call("add", {x, g.call("neg", {c})}));
  EXPECT_EQ(compiled(g), "  add_1 = add(x, neg_1_folded) : f32[4]\n");
  const std::string off = compiled(std::move(g), {.disabled_passes = {"fold", "programs"}});
  EXPECT_NE(off.find("mul_1 = mul(c, constant)"), std::string::npos) << off;
}

// Large constants are written where they stay, small ones are copied: one that two nodes read, one
// that shares the memory of another, and one that another is computed from.
TEST(Passes, FoldedConstantsOfAllSizesHaveTheirValues) {
  for (const int64_t n : {0, 1, 7, 16383, 16384, 40000}) {
    const auto run = [&](SessionOptions options) {
      Graph g;
      const Value x = g.input("x", f32, {n});
      const Value a =
          g.call("mul", {g.parameter("a", f32, {n}, init::uniform(-1, 1, 1)), g.scalar(3.0)});
      const Value b = g.call("add", {a, g.parameter("b", f32, {n}, init::uniform(-1, 1, 2))});
      const Value half = g.call("cast", {b}, {{"dtype", f16}});
      g.output("first", g.call("add", {x, a}));
      g.output("second", g.call("sub", {g.call("mul", {x, a}), b}));
      g.output("third", g.call("add", {x, g.call("cast", {half}, {{"dtype", f32}})}));
      g.output("turned", g.call("matmul", {reshape(x, {1, n}), reshape(b, {n, 1})}));
      g.output("constant", a);
      const Model model = *Model::from_graph(std::move(g));
      Session session = *Session::create(model, std::move(options));
      const TensorData given = filled({n}, 0.5f);
      EXPECT_TRUE(session.set_input("x", given.tensor).ok());
      EXPECT_TRUE(session.run().ok());
      std::vector<std::vector<float>> all;
      for (const char* name : {"first", "second", "third", "turned", "constant"}) {
        const Tensor y = *session.output(name);
        all.emplace_back(y.as<float>(), y.as<float>() + y.count());
      }
      return all;
    };
    EXPECT_EQ(run({}), run({.disabled_passes = {"fold"}})) << n;
  }
}

// Nodes without inputs are checked in the same way as others.
TEST(Passes, LeaveLargeConstantsOfNodesWithoutInputs) {
  Graph g;
  const Value x = g.input("x", i64, {1 << 18});
  g.output("y", g.call("maximum", {x, g.call("arange", {}, {{"end", 1 << 18}})}));
  const std::string text = compiled(std::move(g));
  EXPECT_NE(text.find(" = arange("), std::string::npos) << text;
}

TEST(Passes, WidenWeightsOfBytesOnceWhereMemoryAllows) {
  Graph g;
  const Value x = g.input("x", f32, {1, 1024});
  TensorData bytes = *TensorData::allocate(i8, {1024, 512});
  std::fill_n(bytes.tensor.as<int8_t>(), bytes.tensor.count(), int8_t{3});
  const Value w = g.call("cast", {g.constant(std::move(bytes), "w")}, {{"dtype", f32}});
  g.output("y", g.call("matmul", {x, w}));
  const auto widens_each_run = [&](const SessionOptions& options) {
    return compiled(g, options).find("cast(w") != std::string::npos;
  };
  EXPECT_FALSE(widens_each_run({}));
  EXPECT_TRUE(widens_each_run({.low_memory = true}));
  EXPECT_TRUE(widens_each_run({.memory_limit = 1 << 30}));
}

// A loop with a parameter, its first rows, its transpose, a buffer and an input.
TEST(Passes, BodiesHoldTheConstantsThatTheyTake) {
  Graph g;
  const Value x = g.input("x", f32, {4, 4}), more = g.input("more", f32, {4, 4});
  const Value w = g.parameter("w", f32, {4, 4}, init::uniform(-1, 1, 1));
  const Value wide = g.parameter("wide", f32, {8, 4}, init::uniform(-1, 1, 2));
  const Value b = g.buffer("b", filled({4, 4}, 0.5f));
  g.assign(b, b * 2.0);
  const std::vector<Value> taken = {w, slice(wide, 0, 4, 8), permute(w, {1, 0}), b, more};
  const std::vector<Value> carried = {x, g.scalar(int64_t{0}, i64)};
  const std::vector<Value> out = while_loop(
      carried, taken,
      [](Graph& body, std::span<const Value> v) {
        return std::vector<Value>{lt(v[1], body.scalar(int64_t{3}, i64))};
      },
      [](Graph&, std::span<const Value> v) {
        const Value y = matmul(matmul(v[0], v[2]) + v[3], v[4]) * v[5] + v[6];
        return std::vector<Value>{hg::tanh(y), v[1] + 1};
      });
  g.output("y", out.at(0));
  // The loop's inputs are carried values, values that change, and views that are not rows.
  const std::string text = compiled(g);
  EXPECT_NE(text.find("x, constant_1, permute_1, b, more)"), std::string::npos) << text;
  const std::string sparing = compiled(g, {.low_memory = true});
  EXPECT_NE(sparing.find("w, slice_1, permute_1, b, more)"), std::string::npos) << sparing;

  const TensorData from = filled({4, 4}, 0.25f), add = filled({4, 4}, -0.1f);
  const Model model = *Model::from_graph(std::move(g));
  std::vector<std::vector<float>> answers;
  for (const bool off : {false, true}) {
    SessionOptions options;
    if (off) options.disabled_passes = {"captures"};
    Session session = *Session::create(model, std::move(options));
    ASSERT_TRUE(session.set_input("x", from.tensor).ok());
    ASSERT_TRUE(session.set_input("more", add.tensor).ok());
    for (int run = 0; run < 3; ++run) {
      ASSERT_TRUE(session.run().ok());
      const Tensor y = *session.output("y");
      answers.emplace_back(y.as<float>(), y.as<float>() + y.count());
    }
  }
  EXPECT_NE(answers[0], answers[1]);
  EXPECT_EQ(std::vector(answers.begin(), answers.begin() + 3),
            std::vector(answers.begin() + 3, answers.end()));
}

TEST(Passes, DoNotFoldWhatARunChanges) {
  Graph g;
  const Value x = g.input("x", f32, {4});
  const Value b = g.buffer("b", filled({4}, 3));
  g.assign(b, g.call("add", {b, x}));
  g.output("y", g.call("neg", {b}));
  EXPECT_NE(compiled(std::move(g)).find("neg_1 = neg(b)"), std::string::npos);
}

Graph conv_norm_relu(bool training, Dim n = "n") {
  Graph g;
  const Value x = g.input("x", f32, {n, 3, 8, 8});
  const Value w = g.parameter("w", f32, {5, 3, 3, 3}, init::uniform(-1, 1, 1));
  const Value y = g.call("conv", {x, w}, {{"padding", {1, 1}}});
  const Value mean = g.buffer("mean", filled({5}, 0.5f)), var = g.buffer("var", filled({5}, 2));
  const Value norm =
      g.calls("batch_norm", {y, Value(), Value(), mean, var}, {{"training", training}})[0];
  g.output("y", g.call("relu", {norm}));
  return g;
}

TEST(Passes, FoldBatchNormAndActivationIntoConv) {
  EXPECT_EQ(compiled(conv_norm_relu(false)),
            "  relu_1 = conv(x, w_folded, w_folded_bias, none, padding=[1, 1], "
            "activation=\"relu\") : f32[n, 5, 8, 8]\n");
  EXPECT_NE(compiled(conv_norm_relu(true)).find("batch_norm"), std::string::npos);
}

TEST(Passes, EveryActivationJoinsTheProductBeforeIt) {
  for (int i = 1; i < kActivationCount; ++i) {
    const auto activation = static_cast<Activation>(i);
    const auto graph = [&] {
      Graph g;
      const Value x = g.input("x", f32, {"n", 4});
      const Value w = g.parameter("w", f32, {40, 4}, init::uniform(-1, 1, 1));
      const Value y = apply_activation(g.call("linear", {x, w}), activation);
      EXPECT_EQ(activation_of(g.nodes().back()), activation) << to_string(activation);
      g.output("y", y);
      return g;
    };
    const std::string text = compiled(graph());
    EXPECT_NE(
        text.find("linear(x, w, none, none, activation=\"" + std::string(to_string(activation))),
        std::string::npos)
        << text;
    const auto run = [&](SessionOptions options) {
      const Model model = *Model::from_graph(graph());
      Session session = *Session::create(model, std::move(options));
      std::vector<float> x(7 * 4);
      for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k * 5 % 17) - 8;
      EXPECT_TRUE(session.set_input(0, view(x, {7, 4})).ok());
      EXPECT_TRUE(session.run().ok());
      const Tensor y = *session.output(0);
      return std::vector<float>(y.as<float>(), y.as<float>() + y.count());
    };
    EXPECT_EQ(run({}), run({.disabled_passes = {"epilogue"}})) << to_string(activation);
  }
}

TEST(Passes, FoldedBatchNormComputesTheSame) {
  const auto run = [](SessionOptions options) {
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

// A weight is not kept beside its packed form if no other size can need it.
TEST(Passes, FoldedWeightsAreHeldOnce) {
  const auto run = [](Dim n, int64_t weights_bytes) {
    const Model model = *Model::from_graph(conv_norm_relu(false, std::move(n)));
    Session session = *Session::create(model);
    std::vector<float> x(2 * 3 * 8 * 8);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) / 17 - 0.4f;
    EXPECT_TRUE(session.set_input(0, view(x, {2, 3, 8, 8})).ok());
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(session.run().ok());
    EXPECT_GE(session.memory()->packed_bytes, 540);
    EXPECT_EQ(session.memory()->weights_bytes, weights_bytes);
    const Tensor y = *session.output(0);
    return std::vector<float>(y.as<float>(), y.as<float>() + y.count());
  };
  EXPECT_EQ(run(2, 20), run("n", 540 + 20));
  // Released weights are not written to a file.
  const Session session = *Session::create(*Model::from_graph(conv_norm_relu(false, 2)));
  const Model compiled_model = *Model::from_graph(session.compiled_graph());
  const Result<std::vector<std::byte>> written = compiled_model.serialize();
  EXPECT_NE(written.status().message().find("'w_folded' has no data"), std::string_view::npos)
      << written.status().message();
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

TEST(Passes, SumsThatRepeatAReshapedProductStayBehindIt) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4}), image = g.input("image", f32, {"n", 3, 5, 5});
  const Value product = g.call("linear", {x, g.constant(filled({3, 4}, 1), "w")});
  const Value column = g.call("reshape", {product}, {{"shape", {"n", 3, 1, 1}}});
  g.output("y", g.call("add", {image, column}));
  EXPECT_EQ(compiled(std::move(g), {.disabled_passes = {"programs"}}),
            "  linear_1 = linear(x, w, none, none) : f32[n, 3]\n"
            "  reshape_1 = reshape(linear_1, shape=[n, 3, 1, 1]) : f32[n, 3, 1, 1]\n"
            "  add_1 = add(image, reshape_1) : f32[n, 3, 5, 5]\n");
}

TEST(Passes, ProductsComputeTheRowThatIsRead) {
  const auto decoder = [](const char* end) {
    Graph g;
    const Value x = g.input("x", f32, {"b", "t", 4});
    const Value logits = g.call("linear", {x, g.constant(filled({3, 4}, 1), "w")});
    const Value capped = g.call("mul", {g.call("tanh", {logits}), g.scalar(3.0)});
    const Dim t("t");
    g.output("y", g.call("slice", {capped}, {{"dim", 1}, {"start", t - 1}, {"end", Dim(end)}}));
    return g;
  };
  EXPECT_EQ(compiled(decoder("t")),
            "  slice_2 = slice(x, dim=1, start=t - 1, end=t) : f32[b, 1, 4]\n"
            "  tanh_2 = linear(slice_2, w, none, none, activation=\"tanh\") : f32[b, 1, 3]\n"
            "  slice_1 = mul(tanh_2, constant) : f32[b, 1, 3]\n");
}

TEST(Passes, RunConvolutionsOf16BitsInF32) {
  const auto half_conv = [] {
    Graph g;
    const Value x = g.input("x", bf16, {1, 3, 8, 8});
    const Value w = g.parameter("w", bf16, {5, 3, 3, 3}, init::uniform(-1, 1, 1));
    g.output("y", g.call("relu", {g.call("conv", {x, w})}));
    return g;
  };
  EXPECT_EQ(compiled(half_conv()),
            "  cast_1 = cast(x, dtype=f32) : f32[1, 3, 8, 8]\n"
            "  conv_3 = conv(cast_1, w_f32, none, none, activation=\"relu\") : f32[1, 5, 6, 6]\n"
            "  relu_1 = cast(conv_3, dtype=bf16) : bf16[1, 5, 6, 6]\n");
  const std::string off = compiled(half_conv(), {.disabled_passes = {"half_conv"}});
  EXPECT_EQ(off.find("cast"), std::string::npos) << off;
}

// Their kernels widen what they read.
TEST(Passes, LeaveHalvesTo1x1AndDepthwiseConvolutions) {
  const auto casts = [](const Sizes& weight, int64_t groups, int64_t batch,
                        SessionOptions options = {}) {
    Graph g;
    const Value x = g.input("x", f16, {batch, 8, 9, 9});
    const Value w = g.parameter("w", f16, weight, init::uniform(-1, 1, 1));
    g.output("y", g.call("conv", {x, w}, {{"groups", groups}}));
    return compiled(std::move(g), std::move(options)).find("cast") != std::string::npos;
  };
  EXPECT_FALSE(casts({5, 8, 1, 1}, 1, 1));
  EXPECT_FALSE(casts({5, 8, 1, 1}, 1, 2));
  EXPECT_FALSE(casts({8, 1, 3, 3}, 8, 2));
  EXPECT_TRUE(casts({5, 8, 3, 3}, 1, 1));
  EXPECT_TRUE(casts({5, 8, 1, 1}, 1, 1, {.low_memory = true}));
  EXPECT_TRUE(casts({5, 8, 1, 1}, 1, 1, {.precision = Precision::bf16}));
}

// A kernel as large as the image, with any strides, and a transposed convolution of one pixel.
TEST(Passes, PadCausalConvolutionsInFront) {
  const auto cut = [](int64_t padding, Dim end) {
    Graph g;
    const Value x = g.input("x", f32, {2, 6, "t"});
    const Value w = g.constant(filled({4, 3, 3}, 1), "w"), b = g.constant(filled({4}, 1), "b");
    const Value y = g.call(
        "conv", {x, w, b},
        {{"padding", std::vector<Dim>{padding}}, {"dilation", std::vector<Dim>{2}}, {"groups", 2}});
    g.output("y", g.call("slice", {y}, {{"dim", 2}, {"start", 0}, {"end", end}}));
    return g;
  };
  const Dim t = "t";
  EXPECT_EQ(compiled(cut(4, t)),
            "  pad_1 = pad(x, pads=[0, 0, 0, 0, 4, 0]) : f32[2, 6, t + 4]\n"
            "  slice_1 = conv(pad_1, w, b, none, dilation=[2], groups=2) : f32[2, 4, t]\n");
  // Other paddings and ends are not changed.
  EXPECT_EQ(compiled(cut(4, t - Dim(1))).find("pad("), std::string::npos);
  EXPECT_EQ(compiled(cut(3, t)).find("pad("), std::string::npos);

  // The results equal those of the plain graph.
  const Model model = *Model::from_graph(cut(4, t));
  std::vector<float> values[2];
  for (const bool plain : {false, true}) {
    SessionOptions options;
    if (plain) options.disabled_passes = {"causal"};
    Session session = *Session::create(model, options);
    TensorData x = *TensorData::allocate(f32, {2, 6, 11});
    for (int64_t i = 0; i < x.tensor.count(); ++i)
      x.tensor.as<float>()[i] = static_cast<float>(i % 7) - 3;
    ASSERT_TRUE(session.set_input("x", x.tensor).ok());
    ASSERT_TRUE(session.run().ok());
    const Tensor y = *session.output("y");
    ASSERT_EQ(y.shape, (Sizes{2, 4, 11}));
    for (int64_t o = 0; o < 8; ++o)
      for (int64_t i = 0; i < 11; ++i)
        values[plain].push_back(y.as<float>()[o * y.strides[1] + i * y.strides[2]]);
  }
  EXPECT_EQ(values[0], values[1]);
}

TEST(Passes, MultiplyWholeImages) {
  const auto head = [](int64_t padding) {
    Graph g;
    const Value x = g.input("x", f32, {"n", 3, 4, 5});
    const Value w = g.parameter("w", f32, {6, 3, 4, 5}, init::uniform(-1, 1, 1));
    const Value b = g.parameter("b", f32, {6}, init::uniform(-1, 1, 2));
    const Value v = g.parameter("v", f32, {6, 2, 3, 3}, init::uniform(-1, 1, 3));
    const Value y = g.call("conv", {x, w, b}, {{"stride", Dim(2)}});
    g.output("y", g.call("relu", {y}));
    g.output("z", g.call("conv", {y, v}, {{"transposed", true}, {"padding", Dim(padding)}}));
    return g;
  };
  const std::string all = compiled(head(0));
  EXPECT_EQ(all.find("conv"), all.find("conv_1")) << all;
  EXPECT_NE(all.find("linear("), std::string::npos) << all;
  EXPECT_NE(all.find("f32[n, 2, 3, 3]"), std::string::npos) << all;
  const std::string padded = compiled(head(1));
  EXPECT_NE(padded.find("transposed=true"), std::string::npos) << padded;
  const std::string off = compiled(head(0), {.disabled_passes = {"conv_to_matmul"}});
  EXPECT_EQ(off.find("linear("), std::string::npos) << off;
}

// The gradient of v is first in the graph but runs when v may change; w is read once more.
TEST(Passes, UpdateEarly) {
  const auto step = [] {
    Graph g;
    const Value x = g.input("x", f32, {2, 2}), lr = g.input("lr", f32, {1});
    const Value v = g.parameter("v", f32, {2, 2}, init::ones());
    const Value w = g.parameter("w", f32, {2, 2}, init::ones());
    const Value count = g.scalar(int64_t{1}, i64);
    const Value dv = g.call("exp", {x}), dw = g.call("sum", {x}, {{"dim", 0}, {"keepdim", true}});
    const auto update = [&](const Value& state, const Value& gradient) {
      g.assign(state, g.calls("sgd_step", {state, Value(), Value(), gradient, lr, count})[0]);
    };
    update(w, g.call("expand", {dw}, {{"shape", Shape{2, 2}}}));
    const Value y = g.call("matmul", {x, v});
    update(v, dv);
    g.output("z", g.call("matmul", {g.call("matmul", {y, w}), y}));
    g.output("dw", dw);
    return g;
  };
  const auto order = [](const std::string& nodes) {
    std::string ops;
    for (size_t at = nodes.find(" = "); at != std::string::npos; at = nodes.find(" = ", at + 1))
      ops += nodes.substr(at + 3, nodes.find('(', at) - at - 3) + " ";
    return ops;
  };
  EXPECT_EQ(order(compiled(step())), "sum matmul exp sgd_step matmul expand sgd_step matmul ");
  EXPECT_EQ(order(compiled(step(), {.disabled_passes = {"updates"}})),
            "exp sum expand sgd_step matmul sgd_step matmul matmul ");
}

// An inverted residual: 1x1, depthwise, scaled channels, 1x1 and the sum.
Graph inverted_residual(bool is_read_outside) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4, 6, 6});
  const auto conv = [&](const Value& in, const char* name, const Sizes& weight, int64_t groups) {
    return g.call("conv", {in, g.parameter(name, f32, weight, init::uniform(-1, 1, 1))},
                  {{"padding", Dim(weight[2] / 2)}, {"groups", groups}});
  };
  const Value wide = g.call("relu", {conv(x, "a", {16, 4, 1, 1}, 1)});
  const Value mixed = conv(wide, "b", {16, 1, 3, 3}, 16);
  const Value mean = g.call("adaptive_avg_pool", {mixed}, {{"output_size", Dim(1)}});
  const Value gate = g.call("sigmoid", {conv(mean, "c", {16, 16, 1, 1}, 1)});
  g.output("y", g.call("add", {x, conv(g.call("mul", {mixed, gate}), "d", {4, 16, 1, 1}, 1)}));
  if (is_read_outside) {
    const Value pooled = g.call("max_pool", {mixed}, {{"kernel_size", Dim(2)}});
    g.output("z", g.call("max_pool", {wide}, {{"kernel_size", Dim(2)}}));
    g.output("p", pooled);
  }
  return g;
}

TEST(Passes, LayChannelsLast) {
  EXPECT_EQ(compiled(inverted_residual(false)),
            "  permute_1 = permute(x, dims=[0, 2, 3, 1]) : f32[n, 6, 6, 4]\n"
            "  linear_1 = linear(permute_1, a_matrix, none, none, activation=\"relu\") : f32[n, 6, "
            "6, 16]\n"
            "  conv_channels_last_1 = conv_channels_last(linear_1, b, none, none, padding=[1]) : "
            "f32[n, 6, 6, 16]\n"
            "  mean_1 = mean(conv_channels_last_1, dim=[1, 2], keepdim=true) : f32[n, 1, 1, 16]\n"
            "  linear_2 = linear(mean_1, c_matrix, none, none, activation=\"sigmoid\") : "
            "f32[n, 1, 1, 16]\n"
            "  mul_2 = mul(conv_channels_last_1, linear_2) : f32[n, 6, 6, 16]\n"
            "  linear_3 = linear(mul_2, d_matrix, none, permute_1) : f32[n, 6, 6, 4]\n"
            "  add_1 = permute(linear_3, dims=[0, 3, 1, 2]) : f32[n, 4, 6, 6]\n");
  // The transposes at the region's inputs and outputs cost more than it gains.
  EXPECT_EQ(compiled(inverted_residual(true)).find("conv_channels_last"), std::string::npos);
  EXPECT_EQ(compiled(inverted_residual(false), {.disabled_passes = {"channels_last"}})
                .find("conv_channels_last"),
            std::string::npos);
}

TEST(Passes, BeginWithChannelsLast) {
  const auto network = [](int64_t channels) {
    Graph g;
    const auto conv = [&](const Value& in, const char* name, const Sizes& weight, int64_t groups) {
      return g.call("conv", {in, g.parameter(name, f32, weight, init::uniform(-1, 1, 1))},
                    {{"padding", Dim(1)}, {"groups", groups}});
    };
    const Value x = g.input("x", f32, {"n", channels, 6, 6});
    const Value first = g.call("relu", {conv(x, "a", {8, channels, 3, 3}, 1)});
    g.output("y", conv(conv(first, "b", {8, 1, 3, 3}, 8), "c", {8, 1, 3, 3}, 8));
    return g;
  };
  EXPECT_EQ(compiled(network(3)),
            "  conv_to_channels_last_1 = conv_to_channels_last(x, a, none, padding=[1], "
            "activation=\"relu\") : f32[n, 6, 6, 8]\n"
            "  conv_channels_last_1 = conv_channels_last(conv_to_channels_last_1, b, none, none, "
            "padding=[1]) : f32[n, 6, 6, 8]\n"
            "  conv_channels_last_2 = conv_channels_last(conv_channels_last_1, c, none, none, "
            "padding=[1]) : f32[n, 6, 6, 8]\n"
            "  conv_3 = permute(conv_channels_last_2, dims=[0, 3, 1, 2]) : f32[n, 8, 6, 6]\n");
  // Kernels for more channels are faster without channels_last, even without the cost of a
  // transpose.
  EXPECT_EQ(compiled(network(5)).find("channels_last"), std::string::npos);
}

}  // namespace
}  // namespace hg
