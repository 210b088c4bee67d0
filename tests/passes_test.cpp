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
            "  mul_1 = pointwise_program(x, constant, program=\"add x0 x1; exp s0; mul s1 s1\") : "
            "f32[4]\n");
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

// A weight that its kernel has packed is not kept beside, where no other size can come.
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
  // What is gone is not written as if it were there.
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

// -- What models write out by hand ----------------------------------------------------------------

Value scaled(const Value& x, double factor) {
  return x.graph()->call("mul", {x, x.graph()->scalar(factor)});
}
Value plus(const Value& x, double summand) {
  return x.graph()->call("add", {x.graph()->scalar(summand), x});
}

// One model before a pass, and what the pass makes of it.
struct Written {
  const char* name;
  const char* pass;
  Value (*build)(Graph& g, const Value& x);  // x: f32[2, 3, 4]
  const char* after;
};

std::vector<Dim> last_dim() { return {-1}; }
Value mean_of(const Value& x) {
  return x.graph()->call("mean", {x}, {{"dim", last_dim()}, {"keepdim", true}});
}

Value written_gelu_tanh(Graph& g, const Value& x) {
  const Value cube = g.call("mul", {g.call("mul", {x, x}), x});
  const Value inner = scaled(g.call("add", {x, scaled(cube, 0.044715)}), 0.7978845608028654);
  return g.call("mul", {scaled(x, 0.5), plus(g.call("tanh", {inner}), 1)});
}
Value written_gelu(Graph& g, const Value& x) {
  const Value e = g.call("erf", {g.call("div", {x, g.scalar(1.4142135623730951)})});
  return g.call("mul", {scaled(x, 0.5), plus(e, 1)});
}
Value written_silu(Graph& g, const Value& x) { return g.call("mul", {g.call("sigmoid", {x}), x}); }
Value written_hardswish(Graph& g, const Value& x) {
  const Value six = g.call("hardtanh", {plus(x, 3)}, {{"min_val", 0.0}, {"max_val", 6.0}});
  return g.call("div", {g.call("mul", {x, six}), g.scalar(6.0)});
}
Value written_rms_norm(Graph& g, const Value& x) {
  const Value mean = mean_of(g.call("pow", {x, g.scalar(2.0)}));
  const Value y = g.call("mul", {x, g.call("rsqrt", {plus(mean, 0.5)})});
  return g.call("mul", {g.parameter("w", f32, {4}, init::uniform(-1, 1, 1)), y});
}
Value written_layer_norm(Graph& g, const Value& x) {
  const Value centred = g.call("sub", {x, mean_of(x)});
  const Value var = mean_of(g.call("mul", {centred, centred}));
  const Value y = g.call("div", {centred, g.call("sqrt", {plus(var, 0.5)})});
  const Value weighted = g.call("mul", {y, g.parameter("w", f32, {4}, init::uniform(-1, 1, 1))});
  return g.call("add", {weighted, g.parameter("b", f32, {4}, init::uniform(-1, 1, 2))});
}
Value written_linear(Graph& g, const Value& x) {
  const Value flat = g.call("reshape", {x}, {{"shape", {6, 4}}});
  const Value y = g.call("matmul", {flat, g.parameter("w", f32, {4, 4}, init::uniform(-1, 1, 1))});
  const Value sum = g.call("add", {y, g.parameter("b", f32, {4}, init::uniform(-1, 1, 2))});
  return g.call("add", {x, g.call("reshape", {sum}, {{"shape", {2, 3, 4}}})});
}
Value written_attention(Graph& g, const Value& x) {
  const Value k = g.call("exp", {x}), v = g.call("neg", {x});
  const Value scores =
      g.call("matmul", {scaled(x, 0.5), g.call("permute", {k}, {{"dims", {0, 2, 1}}})});
  const Value mask =
      g.call("where", {g.call("gt", {x, g.scalar(0.0)}), g.scalar(0.0), g.scalar(-3e38)});
  const Value rows = g.call("slice", {mask}, {{"dim", 2}, {"start", 0}, {"end", 3}});
  return g.call("matmul", {g.call("softmax", {g.call("add", {scores, rows})}), v});
}
Value written_views(Graph& g, const Value& x) {
  const Value y = g.call("permute", {g.call("exp", {x})}, {{"dims", {1, 0, 2}}});
  const Value z = g.call("permute", {y}, {{"dims", {2, 1, 0}}});
  const Value wide = g.call("reshape", {z}, {{"shape", {4, 1, 6}}});
  return g.call("permute", {wide}, {{"dims", {1, 0, 2}}});
}

constexpr Written kWritten[] = {
    {"gelu_tanh", "activations", written_gelu_tanh,
     "  mul_6 = gelu(x, approximate=\"tanh\") : f32[2, 3, 4]\n"},
    {"gelu", "activations", written_gelu, "  mul_2 = gelu(x) : f32[2, 3, 4]\n"},
    {"silu", "activations", written_silu, "  mul_1 = silu(x) : f32[2, 3, 4]\n"},
    {"hardswish", "activations", written_hardswish, "  div_1 = hardswish(x) : f32[2, 3, 4]\n"},
    {"rms_norm", "norms", written_rms_norm,
     "  mul_2 = rms_norm(x, w, normalized_shape=[4], eps=0.5) : f32[2, 3, 4]\n"},
    {"layer_norm", "norms", written_layer_norm,
     "  add_2 = layer_norm(x, w, b, normalized_shape=[4], eps=0.5) : f32[2, 3, 4]\n"},
    {"linear", "linear", written_linear,
     "  permute_1 = permute(w, dims=[1, 0]) : f32[4, 4]\n"
     "  add_2 = linear(x, permute_1, b, x) : f32[2, 3, 4]\n"},
    {"attention", "attention", written_attention,
     "  exp_1 = exp(x) : f32[2, 3, 4]\n"
     "  neg_1 = neg(x) : f32[2, 3, 4]\n"
     "  where_1 = pointwise_program(x, constant_1, constant_3, program=\"gt x0 x1; where s0 x1 "
     "x2\") : f32[2, 3, 4]\n"
     "  slice_1 = slice(where_1, dim=2, start=0, end=3) : f32[2, 3, 3]\n"
     "  matmul_2 = attention(x, exp_1, neg_1, slice_1, scale=0.5) : f32[2, 3, 4]\n"},
    {"views", "views", written_views,
     "  exp_1 = exp(x) : f32[2, 3, 4]\n"
     "  permute_2 = permute(exp_1, dims=[2, 0, 1]) : f32[4, 2, 3]\n"
     "  permute_3 = reshape(permute_2, shape=[1, 4, 6]) : f32[1, 4, 6]\n"},
};

class WrittenByHand : public testing::TestWithParam<Written> {};

TEST_P(WrittenByHand, BecomesOneOp) {
  const Written& row = GetParam();
  const auto build = [&](bool reads_the_middle) {
    Graph g;
    const Value x = g.input("x", f32, {2, 3, 4});
    g.output("y", row.build(g, x));
    if (reads_the_middle) {  // every value that a node computes
      const int32_t count = g.value_count();
      for (ValueId id = 0; id < count; ++id)
        if (g.value_info(id).node >= 0 && g.value_info(id).type.dtype == f32)
          g.output("", g.call("neg", {g.value(id)}));
    }
    return g;
  };
  EXPECT_EQ(compiled(build(false)), row.after);
  EXPECT_NE(compiled(build(false), {.disabled_passes = {row.pass}}), row.after);
  const auto run = [&](bool reads_the_middle, Options options) {
    const Model model = *Model::from_graph(build(reads_the_middle));
    Session session = *Session::create(model, std::move(options));
    std::vector<float> x(24);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 24) / 6 - 2;
    EXPECT_TRUE(session.set_input(0, view(x, {2, 3, 4})).ok());
    EXPECT_TRUE(session.run().ok());
    std::vector<float> values;
    for (int k = 0; k < session.output_count(); ++k) {
      const Tensor y = *session.output(k);
      const TensorData dense = *TensorData::allocate(f32, y.shape);
      copy(y, dense.tensor);
      values.insert(values.end(), dense.tensor.as<float>(), dense.tensor.as<float>() + y.count());
    }
    return values;
  };
  for (const bool reads_the_middle : {false, true}) {
    const std::vector<float> fused = run(reads_the_middle, {});
    const std::vector<float> plain = run(reads_the_middle, {.keep_all_values = true});
    ASSERT_EQ(fused.size(), plain.size());
    for (size_t i = 0; i < fused.size(); ++i) ASSERT_NEAR(fused[i], plain[i], 2e-6) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, WrittenByHand, testing::ValuesIn(kWritten),
                         [](const auto& info) { return std::string(info.param.name); });

// A query that -inf hides from all keys gives NaN where the model adds the mask, 0 in the op.
TEST(Passes, LeaveAttentionWithAnUnknownMask) {
  Graph g;
  const Value x = g.input("x", f32, {3, 4}), mask = g.input("mask", f32, {3, 3});
  const Value scores = g.call("matmul", {x, g.call("permute", {x}, {{"dims", {1, 0}}})});
  g.output("y", g.call("matmul", {g.call("softmax", {g.call("add", {scores, mask})}), x}));
  EXPECT_EQ(compiled(std::move(g)).find("attention"), std::string::npos);
}

TEST(Passes, LeaveActivationsWithOtherNumbers) {
  Graph g;
  const Value x = g.input("x", f32, {4});
  const Value e = g.call("erf", {g.call("div", {x, g.scalar(1.414)})});
  g.output("y", g.call("mul", {scaled(x, 0.5), plus(e, 1)}));
  EXPECT_EQ(compiled(std::move(g)).find("gelu"), std::string::npos);
}

TEST(Passes, GiveRepeatedHeadsToAttention) {
  Graph g;
  const Value q = g.input("q", f32, {"n", 4, 5, 8});
  const Value k = g.input("k", f32, {"n", 2, 5, 8});
  const Value split = g.call("reshape", {k}, {{"shape", {"n", 2, 1, 5, 8}}});
  const Value spread = g.call("expand", {split}, {{"shape", {"n", 2, 2, 5, 8}}});
  const Value wide = g.call("reshape", {spread}, {{"shape", {"n", 4, 5, 8}}});
  g.output("y", g.call("attention", {scaled(q, 0.5), wide, wide}, {{"scale", 0.25}}));
  EXPECT_NE(compiled(std::move(g)).find("attention(q, k, k, none, scale=0.125)"),
            std::string::npos);
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

// -- Pointwise programs ---------------------------------------------------------------------------

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

TEST(Passes, JoinElementwiseNodesToPrograms) {
  EXPECT_EQ(compiled(elementwise_chains()),
            "  mul_1 = mul(row, constant) : f32[300]\n"
            "  clamp_1 = pointwise_program(x, mul_1, program=\"add x0 x1; cast s0 dtype=f16; "
            "sigmoid s1; mul s2 s2; cast s3 dtype=f32; tanh s4; clamp s5 - x1\") : f32[n, 300]\n"
            "  where_1 = pointwise_program(x, row, program=\"gt x0 x1; exp x0; where s0 s1 x1\") : "
            "f32[n, 300]\n");
  EXPECT_EQ(compiled(elementwise_chains(), {.disabled_passes = {"programs"}}).find("program"),
            std::string::npos);
}

TEST(Passes, ProgramsComputeTheSameBits) {
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

TEST(Passes, ProgramsLeaveWhatOthersRead) {
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

TEST(Passes, ProgramsHaveGradients) {
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

TEST(Passes, ProgramsSayWhatIsWrongWithThem) {
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

// A kernel as large as the image, with steps that do not matter, and a transposed one of one pixel.
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
  // Other paddings and ends stay as they are.
  EXPECT_EQ(compiled(cut(4, t - Dim(1))).find("pad("), std::string::npos);
  EXPECT_EQ(compiled(cut(3, t)).find("pad("), std::string::npos);

  // The results are those of the plain graph.
  const Model model = *Model::from_graph(cut(4, t));
  std::vector<float> values[2];
  for (const bool plain : {false, true}) {
    Options options;
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
  const std::string off = compiled(head(0), {.disabled_passes = {"whole_images"}});
  EXPECT_EQ(off.find("linear("), std::string::npos) << off;
}

// The gradient of v comes first, but is computed when v may change, and w is read once more.
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

// An inverted residual: 1x1, depthwise, channels weighed by their means, 1x1 and the sum.
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
  // What a region reads and gives outside costs more than it gains.
  EXPECT_EQ(compiled(inverted_residual(true)).find("conv_channels_last"), std::string::npos);
  EXPECT_EQ(compiled(inverted_residual(false), {.disabled_passes = {"channels_last"}})
                .find("conv_channels_last"),
            std::string::npos);
}

// x cos + [-b, a] sin, with [a, b] = x
Graph rotated(int64_t from) {
  Graph g;
  const Value x = g.input("x", f32, {1, 4, "t", 8});
  const Value cos = g.input("cos", f32, {"t", 8}), sin = g.input("sin", f32, {"t", 8});
  const auto part = [&](Dim start, Dim end) {
    return g.call("slice", {x}, {{"dim", -1}, {"start", start}, {"end", end}});
  };
  const Value turned =
      g.call("concat", {g.call("neg", {part(from, 8)}), part(0, from)}, {{"dim", -1}});
  g.output("y", g.call("add", {g.call("mul", {x, cos}), g.call("mul", {turned, sin})}));
  return g;
}

TEST(Passes, FindRope) {
  EXPECT_EQ(compiled(rotated(4)), "  add_1 = rope(x, cos, sin) : f32[1, 4, t, 8]\n");
  EXPECT_EQ(compiled(rotated(3)).find("rope"), std::string::npos);
  EXPECT_EQ(compiled(rotated(4), {.disabled_passes = {"rope"}}).find("rope"), std::string::npos);
}

}  // namespace
}  // namespace hg
