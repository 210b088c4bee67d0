// SPDX-License-Identifier: Apache-2.0
// Patterns that models write out by hand, and the single op that passes make from them.
#include <gtest/gtest.h>

#include <cmath>

#include "hg/hg.h"
#include "tests/support/compiled.h"

namespace hg {
namespace {

// A model before and after a pass.
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
// As Keras and JAX write it.
Value exported_gelu_tanh(Graph&, const Value& x) {
  const Value inner = 0.7978845608028654 * (x + x * (x * (0.044715 * x)));
  return x * (0.5 * (1.0 + tanh(inner)));
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
// As ONNX writes it.
Value exported_hardsigmoid(Graph&, const Value& x) {
  return hardtanh(x * double{0.16666667f} + 0.5, 0, 1);
}
Value exported_hardswish(Graph& g, const Value& x) {
  return g.call("mul", {x, exported_hardsigmoid(g, x)});
}
Value written_rms_norm(Graph& g, const Value& x) {
  const Value mean = mean_of(g.call("pow", {x, g.scalar(2.0)}));
  const Value y = g.call("mul", {x, g.call("rsqrt", {plus(mean, 0.5)})});
  return g.call("mul", {g.parameter("w", f32, {4}, init::uniform(-1, 1, 1)), y});
}
// As torch.onnx.export writes rsqrt.
Value exported_rms_norm(Graph& g, const Value& x) {
  const Value root = g.call("sqrt", {plus(mean_of(g.call("mul", {x, x})), 0.5)});
  return g.call("mul", {x, g.call("reciprocal", {root})});
}
Value written_layer_norm(Graph& g, const Value& x) {
  const Value centred = g.call("sub", {x, mean_of(x)});
  const Value var = mean_of(g.call("mul", {centred, centred}));
  const Value y = g.call("div", {centred, g.call("sqrt", {plus(var, 0.5)})});
  const Value weighted = g.call("mul", {y, g.parameter("w", f32, {4}, init::uniform(-1, 1, 1))});
  return g.call("add", {weighted, g.parameter("b", f32, {4}, init::uniform(-1, 1, 2))});
}
// As torch.onnx.export writes a group_norm of two groups of two channels.
Value exported_group_norm(Graph& g, const Value& x) {
  const Value images = g.call("exp", {g.call("reshape", {x}, {{"shape", {2, 4, 3}}})});
  const auto filled = [&](float value) {
    TensorData data = *TensorData::allocate(f32, {2});
    std::fill_n(data.tensor.as<float>(), 2, value);
    return g.constant(std::move(data));
  };
  const Value groups = g.call("reshape", {images}, {{"shape", {2, 2, 6}}});
  const Value y = g.call("group_norm", {groups, filled(1), filled(0)}, {{"groups", 2}});
  const Value back = g.call("reshape", {y}, {{"shape", {2, 4, 3}}});
  const Value weight = g.parameter("w", f32, {4, 1}, init::uniform(-1, 1, 1));
  const Value bias = g.parameter("b", f32, {1, 4, 1}, init::uniform(-1, 1, 2));
  return g.call("add", {g.call("mul", {back, weight}), bias});
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
// As torch.onnx.export writes it: both factors are scaled, the heads of k are one dim during its
// transpose, and NaN becomes 0.
Value exported_attention(Graph& g, const Value& x, const Value& mask) {
  const auto shaped = [&](const Value& v, std::vector<Dim> shape) {
    return g.call("reshape", {v}, {{"shape", std::move(shape)}});
  };
  const Value q = shaped(x, {1, 2, 3, 4});
  const Value k = g.call("exp", {q}), v = g.call("neg", {q});
  const Value turned = g.call("permute", {shaped(k, {2, 3, 4})}, {{"dims", {0, 2, 1}}});
  const Value scores =
      g.call("matmul", {scaled(q, 0.5), scaled(shaped(turned, {1, 2, 4, 3}), 0.5)});
  const Value weights = g.call("softmax", {g.call("add", {scores, mask})});
  const Value guarded = g.call("where", {g.call("isnan", {weights}), g.scalar(0.0), weights});
  return shaped(g.call("matmul", {guarded, v}), {2, 3, 4});
}
Value exported_attention_of(Graph& g, const Value& x) {
  const Value rows = g.call("slice", {g.call("reshape", {x}, {{"shape", {1, 2, 3, 4}}})},
                            {{"dim", 3}, {"start", 0}, {"end", 3}});
  const Value shown = g.call("lt", {rows, g.scalar(1.9)});
  return exported_attention(g, x, g.call("where", {shown, g.scalar(0.0), g.scalar(-HUGE_VAL)}));
}
Value written_views(Graph& g, const Value& x) {
  const Value y = g.call("permute", {g.call("exp", {x})}, {{"dims", {1, 0, 2}}});
  const Value z = g.call("permute", {y}, {{"dims", {2, 1, 0}}});
  const Value wide = g.call("reshape", {z}, {{"shape", {4, 1, 6}}});
  return g.call("permute", {wide}, {{"dims", {1, 0, 2}}});
}

// A bias per channel, as Paddle and TensorFlow write it.
Value exported_channels(Graph& g, const Value& x) {
  const Value w = g.parameter("w", f32, {5, 3, 3}, init::uniform(-1, 1, 1));
  const Value b = g.parameter("b", f32, {1, 5, 1}, init::uniform(-1, 1, 2));
  return relu(b + conv(x, w, {}, {.padding = {1}}));
}
Value exported_bias(Graph& g, const Value& x) {
  const Value w = g.parameter("w", f32, {4, 4}, init::uniform(-1, 1, 1));
  const Value b = g.parameter("b", f32, {1, 1, 4}, init::uniform(-1, 1, 2));
  return linear(x, w) + b;
}

constexpr Written kWritten[] = {
    {"gelu_tanh", "activations", written_gelu_tanh,
     "  mul_6 = gelu(x, approximate=\"tanh\") : f32[2, 3, 4]\n"},
    {"exported_gelu_tanh", "activations", exported_gelu_tanh,
     "  mul_6 = gelu(x, approximate=\"tanh\") : f32[2, 3, 4]\n"},
    {"gelu", "activations", written_gelu, "  mul_2 = gelu(x) : f32[2, 3, 4]\n"},
    {"silu", "activations", written_silu, "  mul_1 = silu(x) : f32[2, 3, 4]\n"},
    {"hardswish", "activations", written_hardswish, "  div_1 = hardswish(x) : f32[2, 3, 4]\n"},
    {"exported_hardsigmoid", "activations", exported_hardsigmoid,
     "  hardtanh_1 = hardsigmoid(x) : f32[2, 3, 4]\n"},
    {"exported_hardswish", "activations", exported_hardswish,
     "  mul_2 = hardswish(x) : f32[2, 3, 4]\n"},
    {"rms_norm", "norms", written_rms_norm,
     "  mul_2 = rms_norm(x, w, normalized_shape=[4], eps=0.5) : f32[2, 3, 4]\n"},
    {"exported_rms_norm", "norms", exported_rms_norm,
     "  mul_2 = rms_norm(x, none, normalized_shape=[4], eps=0.5) : f32[2, 3, 4]\n"},
    {"layer_norm", "norms", written_layer_norm,
     "  add_2 = layer_norm(x, w, b, normalized_shape=[4], eps=0.5) : f32[2, 3, 4]\n"},
    {"group_norm", "norms", exported_group_norm,
     "  reshape_1 = reshape(x, shape=[2, 4, 3]) : f32[2, 4, 3]\n"
     "  exp_1 = exp(reshape_1) : f32[2, 4, 3]\n"
     "  reshape_4 = reshape(w, shape=[4]) : f32[4]\n"
     "  reshape_5 = reshape(b, shape=[4]) : f32[4]\n"
     "  add_1 = group_norm(exp_1, reshape_4, reshape_5, groups=2) : f32[2, 4, 3]\n"},
    {"linear", "linear", written_linear,
     "  permute_1 = permute(w, dims=[1, 0]) : f32[4, 4]\n"
     "  add_2 = linear(x, permute_1, b, x) : f32[2, 3, 4]\n"},
    {"exported_channels", "linear", exported_channels,
     "  reshape_1 = reshape(b, shape=[5]) : f32[5]\n"
     "  relu_1 = conv(x, w, reshape_1, none, padding=[1], activation=\"relu\") : f32[2, 5, 4]\n"},
    {"exported_bias", "linear", exported_bias,
     "  reshape_1 = reshape(b, shape=[4]) : f32[4]\n"
     "  add_1 = linear(x, w, reshape_1, none) : f32[2, 3, 4]\n"},
    {"attention", "attention", written_attention,
     "  exp_1 = exp(x) : f32[2, 3, 4]\n"
     "  neg_1 = neg(x) : f32[2, 3, 4]\n"
     "  where_1 = pointwise_program(x, constant_1, constant_3, program=\"gt x0 x1; where s0 x1 "
     "x2\") : f32[2, 3, 4]\n"
     "  slice_1 = slice(where_1, dim=2, start=0, end=3) : f32[2, 3, 3]\n"
     "  matmul_2 = attention(x, exp_1, neg_1, slice_1, scale=0.5) : f32[2, 3, 4]\n"},
    {"exported_attention", "attention", exported_attention_of,
     "  reshape_1 = reshape(x, shape=[1, 2, 3, 4]) : f32[1, 2, 3, 4]\n"
     "  slice_1 = slice(reshape_1, dim=3, start=0, end=3) : f32[1, 2, 3, 3]\n"
     "  lt_1 = lt(slice_1, constant) : bool[1, 2, 3, 3]\n"
     "  exp_1 = exp(reshape_1) : f32[1, 2, 3, 4]\n"
     "  neg_1 = neg(reshape_1) : f32[1, 2, 3, 4]\n"
     "  matmul_2 = attention(reshape_1, exp_1, neg_1, lt_1, scale=0.25) : f32[1, 2, 3, 4]\n"
     "  reshape_5 = reshape(matmul_2, shape=[2, 3, 4]) : f32[2, 3, 4]\n"},
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
    if (reads_the_middle) {  // every value of a node is an output
      const int32_t count = g.value_count();
      for (ValueId id = 0; id < count; ++id)
        if (g.value_info(id).node >= 0 && g.value_info(id).type.dtype == f32)
          g.output("", g.call("neg", {g.value(id)}));
    }
    return g;
  };
  EXPECT_EQ(compiled(build(false)), row.after);
  EXPECT_NE(compiled(build(false), {.disabled_passes = {row.pass}}), row.after);
  const auto run = [&](bool reads_the_middle, SessionOptions options) {
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
      copy_elements(y, dense.tensor);
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

// If -inf hides all keys from a query, a model that adds the mask gives NaN, and the op gives 0.
TEST(Patterns, LeaveAttentionWithAnUnknownMask) {
  Graph g;
  const Value x = g.input("x", f32, {3, 4}), mask = g.input("mask", f32, {3, 3});
  const Value scores = g.call("matmul", {x, g.call("permute", {x}, {{"dims", {1, 0}}})});
  g.output("y", g.call("matmul", {g.call("softmax", {g.call("add", {scores, mask})}), x}));
  EXPECT_EQ(compiled(std::move(g)).find("attention"), std::string::npos);
}

// The op's slope is an f32, which is not 1/6 in f64.
TEST(Patterns, LeaveHardsigmoidOfF64) {
  Graph g;
  g.output("y", exported_hardsigmoid(g, g.input("x", f64, {3, 4})));
  EXPECT_EQ(compiled(std::move(g)).find("hardsigmoid"), std::string::npos);
}

// The model replaces the NaN of such a query by 0, so the op gives the same.
TEST(Patterns, HideAllKeysOfAQuery) {
  for (const bool fuses : {true, false}) {
    Graph g;
    const Value x = g.input("x", f32, {2, 3, 4});
    const Value shown = g.input("shown", boolean, {1, 1, 3, 3});
    const Value mask = g.call("where", {shown, g.scalar(0.0), g.scalar(-HUGE_VAL)});
    g.output("y", exported_attention(g, x, mask));
    if (fuses) {
      EXPECT_NE(compiled(g).find("attention("), std::string::npos);
    }
    const Model model = *Model::from_graph(std::move(g));
    Session session = *Session::create(model, {.keep_all_values = !fuses});
    const std::vector<float> ones(24, 1.0f);
    const uint8_t some[] = {1, 1, 1, 0, 0, 0, 0, 1, 0};
    ASSERT_TRUE(session.set_input(0, view(ones, {2, 3, 4})).ok());
    ASSERT_TRUE(session.set_input(1, view(some, boolean, {1, 1, 3, 3})).ok());
    ASSERT_TRUE(session.run().ok());
    const float* const y = session.output(0)->as<float>();
    for (int i = 0; i < 24; ++i) EXPECT_NEAR(y[i], i / 4 % 3 == 1 ? 0 : -1, 1e-6) << i;
  }
}

TEST(Patterns, ComputeSquaresAsProducts) {
  const auto text = [](DType dtype, double exponent) {
    Graph g;
    const Value x = g.input("x", dtype, {4});
    g.output("y", g.call("pow", {x, cast(g.scalar(exponent), dtype)}));
    return compiled(std::move(g));
  };
  for (const DType dtype : {f32, f64, i32}) {
    EXPECT_NE(text(dtype, 2).find("mul(x, x)"), std::string::npos) << text(dtype, 2);
    EXPECT_EQ(text(dtype, 3).find("mul(x, x)"), std::string::npos) << text(dtype, 3);
  }
  EXPECT_EQ(text(f32, 2.0000002384185791).find("mul"), std::string::npos);
  const std::vector<float> x = {0,         -0.0f,      -3,  1e30f, -1e30f, 1e-30f,
                                HUGE_VALF, -HUGE_VALF, NAN, 1.1f,  -1e-40f};
  const auto count = static_cast<int64_t>(x.size());
  for (const bool passes : {true, false}) {
    Graph g;
    const Value in = g.input("x", f32, {count});
    g.output("y", g.call("pow", {in, g.scalar(2.0)}));
    Session session =
        *Session::create(*Model::from_graph(std::move(g)), {.keep_all_values = !passes});
    ASSERT_TRUE(session.set_input(0, view(x, {count})).ok());
    ASSERT_TRUE(session.run().ok());
    for (size_t i = 0; i < x.size(); ++i) {
      const float y = session.output(0)->as<float>()[i];
      EXPECT_TRUE(y == x[i] * x[i] || (std::isnan(x[i]) && std::isnan(y))) << x[i] << " " << y;
    }
  }
}

TEST(Patterns, LeaveActivationsWithOtherNumbers) {
  Graph g;
  const Value x = g.input("x", f32, {4});
  const Value e = g.call("erf", {g.call("div", {x, g.scalar(1.414)})});
  g.output("y", g.call("mul", {scaled(x, 0.5), plus(e, 1)}));
  EXPECT_EQ(compiled(std::move(g)).find("gelu"), std::string::npos);
}

TEST(Patterns, GiveRepeatedHeadsToAttention) {
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

TEST(Patterns, GiveKeysAndValuesOf16BitsToAttention) {
  const auto text = [](DType keys, DType values, DType queries = f32) {
    Graph g;
    const Value q = g.input("q", queries, {1, 4, 1, 8});
    const Value k = g.input("k", keys, {1, 2, "n", 8}), v = g.input("v", values, {1, 2, "n", 8});
    g.output("y", g.call("attention", {q, cast(k, queries), cast(v, queries)}, {{"causal", true}}));
    return compiled(std::move(g));
  };
  EXPECT_NE(text(f16, f16).find("mixed_attention(q, k, v, none, none, none, causal=true)"),
            std::string::npos)
      << text(f16, f16);
  EXPECT_NE(text(bf16, bf16).find("mixed_attention("), std::string::npos) << text(bf16, bf16);
  EXPECT_EQ(text(f16, bf16).find("mixed_attention("), std::string::npos) << text(f16, bf16);
  EXPECT_EQ(text(i8, i8).find("mixed_attention("), std::string::npos) << text(i8, i8);
  Graph levels;
  const auto part = [&](const char* name) {
    return cast(levels.input(name, i8, {1, 2, "n", 8}), f32) *
           levels.input(std::string(name) + "s", f32, {1, 2, "n", 1});
  };
  const Value q = levels.input("q", f32, {1, 4, 1, 8}), k = part("k");
  levels.output("y", levels.call("attention", {q, k, part("v")}));
  const std::string of_levels = compiled(std::move(levels));
  EXPECT_NE(of_levels.find("mixed_attention(q, k, v, none, ks, vs)"), std::string::npos)
      << of_levels;
  for (const DType queries : {f64, bf16})
    EXPECT_EQ(text(f16, f16, queries).find("mixed_attention("), std::string::npos)
        << text(f16, f16, queries);
}

// Two attentions that read a mask [3, 3] of queries and keys, which repeats for each image.
std::string masked_twice(Dim time, bool hides) {
  Graph g;
  const Value q = g.input("q", f32, {"n", 2, time, 8}), k = g.input("k", f32, {"n", 2, 3, 8});
  TensorData shown = *TensorData::allocate(boolean, {3, 3});
  std::fill_n(shown.tensor.as<bool>(), 9, true);
  shown.tensor.as<bool>()[1] = !hides;
  const Value mask = g.call("expand", {g.constant(std::move(shown))}, {{"shape", {"n", 1, 3, 3}}});
  g.output("y", g.call("attention", {q, k, k, mask}));
  g.output("z", g.call("attention", {g.call("exp", {q}), k, k, mask}));
  return compiled(std::move(g));
}

TEST(Patterns, ReadMasksAsTheyAre) {
  const std::string hiding = masked_twice(3, true), showing = masked_twice(3, false);
  EXPECT_EQ(hiding.find("expand"), std::string::npos) << hiding;
  EXPECT_EQ(hiding.find("none"), std::string::npos) << hiding;
  EXPECT_EQ(showing.find("expand"), std::string::npos) << showing;
  EXPECT_NE(showing.find("attention(q, k, k, none"), std::string::npos) << showing;
  // A run rejects another number of queries than the mask's.
  EXPECT_NE(masked_twice("t", false).find("expand"), std::string::npos);
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

TEST(Patterns, FindRope) {
  EXPECT_EQ(compiled(rotated(4)), "  add_1 = rope(x, cos, sin) : f32[1, 4, t, 8]\n");
  EXPECT_EQ(compiled(rotated(3)).find("rope"), std::string::npos);
  EXPECT_EQ(compiled(rotated(4), {.disabled_passes = {"rope"}}).find("rope"), std::string::npos);
}

// x[:, low:middle] and x[:, middle:] joined, plus 1
Graph joined(int64_t low, int64_t middle) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 8});
  const auto part = [&](Dim start, Dim end) {
    return g.call("slice", {x}, {{"dim", -1}, {"start", start}, {"end", end}});
  };
  g.output("y", g.call("concat", {part(low, middle), part(middle, 8)}, {{"dim", 1}}) + 1);
  return g;
}

TEST(Patterns, FindPartsThatAreJoinedAgain) {
  EXPECT_EQ(compiled(joined(0, 3)).find("= concat("), std::string::npos);
  EXPECT_NE(compiled(joined(1, 3)).find("= concat("), std::string::npos);
}

// The spectrum of [n, t], whose numbers have `im` for their imaginary parts.
Graph spectrum(double im) {
  Graph g;
  const Value x = g.input("x", f32, {"n", "t", 1});
  const Value other = g.call("full", {}, {{"shape", {"n", "t", 1}}, {"value", im}});
  const Value pairs = g.call("concat", {x, other}, {{"dim", -1}});
  g.output("y", fft(pairs, 1, true, FftNorm::n));
  return g;
}

TEST(Patterns, FindTransformsOfRealNumbers) {
  EXPECT_EQ(compiled(spectrum(0)),
            "  fft_1 = fft_of_real(x, dim=1, inverse=true, norm=\"n\") : f32[n, t, 2]\n");
  EXPECT_EQ(compiled(spectrum(0.5)).find("fft_of_real"), std::string::npos);
  EXPECT_EQ(compiled(spectrum(0), {.disabled_passes = {"fft"}}).find("fft_of_real"),
            std::string::npos);
}

// The real numbers of which x: [b, known] has the first half of the spectrum, as irfft is
// converted, for n = 2 (known - 1) + odd; the slice of x's middle begins at `start`.
Graph of_half(int64_t odd, int64_t start = 1) {
  Graph g;
  const Value x = g.input("x", f32, {"b", "known", 2});
  const auto part = [&](const Value& pairs, int64_t k) { return slice(pairs, 2, k, k + 1); };
  const Dim n = (x.dim(1) - 1) * 2 + odd;
  const Value rest =
      g.call("flip", {slice(x, 1, start, n - x.dim(1) + start)}, {{"dims", std::vector<Dim>{1}}});
  const Shape flat = {rest.dim(0), rest.dim(1)};
  const Value im = reshape(-reshape(part(rest, 1), flat), {rest.dim(0), rest.dim(1), 1});
  const Value pairs = g.call("concat", {part(rest, 0), im}, {{"dim", 2}});
  g.output("y", part(fft(g.call("concat", {x, pairs}, {{"dim", 1}}), 1, true, FftNorm::n), 0));
  return g;
}

TEST(Patterns, FindTransformsToRealNumbers) {
  for (const int64_t odd : {0, 1})
    EXPECT_EQ(compiled(of_half(odd)).find("  slice_4 = fft_to_real(x, n=2*known - "), 0U);
  EXPECT_EQ(compiled(of_half(0, 0)).find("fft_to_real"), std::string::npos);
}

}  // namespace
}  // namespace hg
