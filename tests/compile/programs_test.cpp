// SPDX-License-Identifier: Apache-2.0
// Pointwise programs: how elementwise nodes become one node, its results and its text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <random>
#include <string>

#include "hg/hg.h"
#include "hg/kernel.h"
#include "hg/pointwise_program.h"
#include "hg/train.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/compiled.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

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

Graph reductions() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 300}), y = g.input("y", f32, {300});
  const Value d = g.call("sub", {x, y});
  g.output("mse", g.call("mean", {g.call("mul", {d, d})}));
  const Value squares = g.call("mul", {x, x});
  g.output("norms", g.call("sqrt", {g.call("sum", {squares},
                                           {{"dim", std::vector<Dim>{-1}}, {"keepdim", true}})}));
  // A value with two readers is stored, but other values may be inputs of its readers.
  const Value e = g.call("exp", {x});
  g.output("total", g.call("sum", {e}));
  g.output("largest", g.call("argmax", {g.call("neg", {e})}, {{"dim", 1}}));
  // Two results, and a reduction of an input.
  g.output("values", g.calls("max", {g.call("neg", {y})}, {{"dim", 0}})[0]);
  g.output("sum", g.call("sum", {y}));
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

// A registry with a copy of each kernel under another name, before all others.
struct Renamed {
  Registry registry;
  std::deque<KernelDef> rows;
  std::deque<std::string> names;

  Renamed() {
    for (const Op* op : Registry::built_in().ops()) {
      const auto kernels = Registry::built_in().kernels(op->name(), Device::cpu);
      for (size_t i = kernels.size(); i-- > 0;) {
        rows.push_back(*kernels[i]);
        rows.back().name = names.emplace_back(std::string(kernels[i]->name) + "_renamed");
        EXPECT_TRUE(registry.add(rows.back()).ok());
      }
    }
  }
};

TEST(Programs, DoNotAskForTheNamesOfKernels) {
  const Renamed renamed;
  EXPECT_EQ(compiled(elementwise_chains(), {.registry = &renamed.registry}),
            compiled(elementwise_chains()));
  EXPECT_EQ(compiled(reductions(), {.registry = &renamed.registry}), compiled(reductions()));
  EXPECT_NE(compiled(reductions()).find("pointwise_reduction"), std::string::npos);
}

// Programs cannot call an application's kernel.
TEST(Programs, LeaveOpsWithKernelsOfTheHost) {
  KernelDef own = *Registry::built_in().kernels("sigmoid", Device::cpu).front();
  own.run = [](const RunContext&) noexcept {};
  Registry registry;
  ASSERT_TRUE(registry.add(own).ok());
  EXPECT_NE(compiled(elementwise_chains(), {.registry = &registry}).find("= sigmoid("),
            std::string::npos);
}

TEST(Programs, ComputeTheSameBits) {
  const auto run = [](SessionOptions options) {
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

// Both halves of gelu read the same widened bytes, whose levels and those between have numbers of
// their own.
TEST(Programs, JoinWhatBytesBecome) {
  Graph g;
  int numbers = 0;
  const auto number = [&] { return g.input(str_cat("n", int64_t{numbers++}), f32, {}); };
  const auto levels = [&](const Value& x, const Value& scale, const Value& zero) {
    return cast(hardtanh(round(x / scale) + zero, 0, 255), u8);
  };
  const auto requantized = [&](const Value& x) {
    const Value scale = number(), zero = number();
    return (cast(levels(x, scale, zero), f32) - zero) * scale;
  };
  const Value x = (cast(g.input("x", u8, {"n", 300}), f32) - number()) * number();
  const Value half = requantized(requantized(erf(x / 1.414)) + 1.0);
  g.output("y", levels(requantized(x * half) * 0.5, number(), number()));
  g.output("z", sigmoid(gelu(g.input("z", f32, {"n", 300}))));
  // Reshapes move behind what reads numbers.
  const Value rows = reshape(exp(g.input("r", f32, {"n", 30, 10})), {"n", 300});
  g.output("r", reshape(levels(rows, number(), number()), {"n", 3, 100}));
  const std::string text = compiled(std::move(g));
  EXPECT_EQ(std::ranges::count(text, '\n'), 5) << text;
}

TEST(Programs, LeaveWhatOthersRead) {
  Graph g;
  const Value x = g.input("x", f32, {4}), s = g.input("s", f32, {});
  const Value e = g.call("exp", {x});
  g.output("e", e);
  // A value with another shape than the result is computed once, not for every element.
  const Value small = g.call("exp", {g.call("neg", {s})});
  g.output("y", g.call("sigmoid", {g.call("mul", {g.call("tanh", {e}), small})}));
  EXPECT_EQ(compiled(std::move(g)),
            "  exp_1 = exp(x) : f32[4]\n"
            "  exp_2 = pointwise_program(s, program=\"neg x0; exp s0\") : f32[]\n"
            "  sigmoid_1 = pointwise_program(exp_1, exp_2, program=\"tanh x0; mul s0 x1; sigmoid "
            "s1\") : f32[4]\n");
}

// ---- Reductions at the end ----

TEST(Programs, EndWithTheReductionThatReadsThem) {
  EXPECT_EQ(
      compiled(reductions()),
      "  mean_1 = pointwise_reduction(x, y, program=\"sub x0 x1; mul s0 s0; mean s1\") : f32[]\n"
      "  sum_1 = pointwise_reduction(x, program=\"mul x0 x0; sum s0 dim=-1 keepdim=true\") : "
      "f32[n, "
      "1]\n"
      "  sqrt_1 = sqrt(sum_1) : f32[n, 1]\n"
      "  exp_1 = exp(x) : f32[n, 300]\n"
      "  sum_2 = sum(exp_1) : f32[]\n"
      "  argmax_1 = pointwise_reduction(exp_1, program=\"neg x0; argmax s0 dim=1\") : i64[n]\n"
      "  neg_2 = neg(y) : f32[300]\n"
      "  max_1, max_2 = max(neg_2, dim=0) : f32[], i64[]\n"
      "  sum_3 = sum(y) : f32[]\n");
  EXPECT_EQ(compiled(reductions(), {.disabled_passes = {"programs"}}).find("pointwise"),
            std::string::npos);
}

TEST(Programs, DoNotStoreWhatTheyReduce) {
  const auto session_of = [](SessionOptions options) {
    Graph g;
    const Value x = g.input("x", f32, {64, 1, 512}), y = g.input("y", f32, {64, 1});
    const Value d = g.call("sub", {x, y});
    g.output("mse", g.call("mean", {g.call("mul", {d, d})}));
    return *Session::create(*Model::from_graph(std::move(g)), std::move(options));
  };
  const Session joined = session_of({}), plain = session_of({.disabled_passes = {"programs"}});
  EXPECT_LT(joined.memory()->arena_bytes, 64 * 1024);
  EXPECT_GE(plain.memory()->arena_bytes, 64 * 64 * 512 * 4);
  EXPECT_EQ(joined.flops(), 3.0 * 64 * 64 * 512);
}

TEST(Programs, LeaveReductionsWhoseElementsLieApart) {
  const auto joins = [](Shape shape, std::vector<Dim> dims) {
    Graph g;
    const Value x = g.input("x", f32, shape);
    g.output("y", g.call("sum", {g.call("mul", {x, x})}, {{"dim", dims}}));
    return compiled(std::move(g)).find("pointwise_reduction") != std::string::npos;
  };
  EXPECT_FALSE(joins({1000, 3}, {0}));
  EXPECT_FALSE(joins({1000, 3, 1}, {-3}));
  EXPECT_TRUE(joins({1000, 3}, {1}));
  EXPECT_TRUE(joins({1000, 3}, {}));
  EXPECT_TRUE(joins({1000, 3, 3}, {0}));
  EXPECT_TRUE(joins({1000, "n"}, {0}));
}

struct Reduced {
  std::string program;
  std::vector<Sizes> shapes;
};

// Every order in which reductions visit elements: rows, parts of long rows, columns, parts of many
// rows, and dims in the middle.
std::vector<Reduced> reduced_programs() {
  std::vector<Reduced> all;
  const auto add = [&](const char* last, std::vector<Sizes> shapes) {
    all.push_back({str_cat("mul x0 x1; sub s0 x0; ", last), std::move(shapes)});
  };
  for (const char* op : {"sum", "mean", "prod", "amax", "amin", "var", "norm", "argmax"}) {
    const bool is_one = std::string_view(op) == "argmax";
    add(str_cat(op, " s1").c_str(), {{90001}, {90001}});
    for (const int64_t n : {1, 5, 40, 1000, 1025, 3000})
      add(str_cat(op, " s1 dim=-1").c_str(), {{7, n}, {7, 1}});
    add(str_cat(op, " s1 dim=0 keepdim=true").c_str(), {{70, 3}, {3}});
    add(str_cat(op, " s1 dim=0").c_str(), {{3000, 40}, {3000, 1}});
    add(str_cat(op, " s1 dim=1").c_str(), {{3, 60, 300}, {60, 300}});
    if (is_one) continue;
    add(str_cat(op, " s1 dim=0,2").c_str(), {{6, 5, 70}, {5, 1}});
    add(str_cat(op, " s1 dim=0,2").c_str(), {{6, 5, 700, 3}, {3}});
    add(str_cat(op, " s1 dim=1,3 keepdim=true").c_str(), {{2, 1, 1, 50}, {9, 4, 50}});
  }
  add("sum s1 dim=1", {{4, 0}, {4, 1}});
  add("sum s1 dim=1", {{0, 4}, {4}});
  add("sum s1", {{}, {}});
  add("norm s1 ord=-inf dim=0", {{70, 9}, {9}});
  // One op before the reduction.
  all.push_back({"sub x0 x1; sum s0 dim=-1", {{7, 1000}, {7, 1}}});
  all.push_back({"sub x1 x0; amax s0 dim=0", {{70, 40}, {40}}});
  all.push_back({"maximum x0 x1; mean s0", {{90, 300}, {90, 300}}});
  return all;
}

// Some elements of the inputs are NaN.
std::vector<TensorData> inputs_of(const Reduced& r, DType dtype) {
  std::vector<TensorData> inputs;
  for (const Sizes& shape : r.shapes) {
    TensorData wide = *TensorData::allocate(f32, shape);
    for (int64_t i = 0; i < shape.count(); ++i)
      wide.tensor.as<float>()[i] =
          is_float(dtype) && i % 1999 == 1998 ? NAN : static_cast<float>(i * 37 % 101) / 30 - 1.5f;
    Graph g;
    g.output("y", g.call("cast", {g.input("x", f32, to_shape(shape))}, {{"dtype", dtype}}));
    Session session = *Session::create(*Model::from_graph(std::move(g)));
    EXPECT_TRUE(session.set_input(0, wide.tensor).ok());
    EXPECT_TRUE(session.run().ok());
    TensorData data = *TensorData::allocate(dtype, shape);
    copy_elements(*session.output(0), data.tensor);
    inputs.push_back(std::move(data));
  }
  return inputs;
}

// The program as one node, or as single ops. Returns nothing if the ops do not accept the dtype.
std::optional<Model> model_of(const Reduced& r, DType dtype, bool joined) {
  Graph g;
  std::vector<Value> values;
  for (const Sizes& shape : r.shapes) values.push_back(g.input("", dtype, to_shape(shape)));
  if (joined) {
    g.output("y", g.call("pointwise_reduction", values, {{"program", r.program}}));
  } else {
    const auto program = PointwiseProgram::parse(r.program, 2, g.registry());
    for (const PointwiseProgram::Step& step : program->steps) {
      std::vector<Value> inputs;
      for (const int arg : step.args) inputs.push_back(values[arg]);
      NamedAttrs attrs;
      for (size_t i = 0; i < step.attrs.size(); ++i)
        attrs.push_back({step.op->signature.attributes[i].name, step.attrs[i]});
      values.push_back(g.call(step.op->name(), inputs, attrs));
    }
    g.output("y", values.back());
  }
  if (!g.status().ok()) return std::nullopt;
  return *Model::from_graph(std::move(g));
}

TEST(Programs, ReduceToTheSameBits) {
  const Isa best = chosen_isa();
  for (const Reduced& r : reduced_programs())
    for (const DType dtype : {f32, f64, f16, bf16, i64, i32, u8}) {
      const std::optional<Model> by_ops = model_of(r, dtype, false);
      if (!by_ops && !is_float(dtype)) continue;  // mean, var and norm of integers
      const std::optional<Model> joined = model_of(r, dtype, true);
      ASSERT_TRUE(by_ops && joined);
      const std::vector<TensorData> inputs = inputs_of(r, dtype);
      const auto bytes = [&](const Model& model, int threads) {
        SessionOptions options{.threads = threads, .disabled_passes = {"programs"}};
        Session session = *Session::create(model, std::move(options));
        for (int k = 0; k < 2; ++k) EXPECT_TRUE(session.set_input(k, inputs[k].tensor).ok());
        EXPECT_TRUE(session.run().ok());
        const Tensor y = *session.output(0);
        return std::string(static_cast<const char*>(y.data), static_cast<size_t>(y.bytes()));
      };
      for (const Isa isa : kIsas) {
        if (!supports(isa) || (isa < best && dtype != f32 && dtype != f16)) continue;
        limit_isa(isa);
        const std::string plain = bytes(*by_ops, 1);
        for (const int threads : {1, 2})
          EXPECT_EQ(bytes(*joined, threads), plain)
              << str_cat(to_string(dtype), " ", r.program, " of ", r.shapes[0], " and ",
                         r.shapes[1], ", ", threads, " threads, isa ", static_cast<int64_t>(isa));
        limit_isa(kBestIsa);
      }
    }
}

// All pairs of bytes, with scales that put many sums halfway between two levels.
TEST(Programs, SumsOfBytesRoundAsSeparateSteps) {
  std::vector<uint8_t> a(1 << 16), b(1 << 16);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint8_t>(i >> 8);
    b[i] = static_cast<uint8_t>(i);
  }
  const Sizes shape = {static_cast<int64_t>(a.size())};
  std::mt19937 random(1);
  const Isa best = chosen_isa();
  for (int trial = 0; trial < 24; ++trial) {
    const DType of_a = trial & 1 ? i8 : u8, of_b = trial & 2 ? i8 : u8, of_y = trial & 4 ? i8 : u8;
    const auto number = [&](int below) { return static_cast<double>(random() % below); };
    const double scale = (1 + number(1000)) / 7000;
    Graph g;
    const auto widened = [&](const char* name, DType dtype) {
      const Value x = cast(g.input(name, dtype, to_shape(shape)), f32);
      return (x - g.scalar(number(9))) * g.scalar(scale * (1 + number(6)) / 2);
    };
    const Value sum = widened("a", of_a) + widened("b", of_b);
    const double low = of_y == u8 ? 0 : -128;
    g.output(
        "y",
        cast(hardtanh(round(sum / g.scalar(scale)) + g.scalar(number(100)), low, low + 255), of_y));
    const Model model = *Model::from_graph(std::move(g));
    const auto run = [&](SessionOptions how) {
      Session session = *Session::create(model, std::move(how));
      const auto set = [&](const char* name, std::vector<uint8_t>& x, DType dtype) {
        EXPECT_TRUE(session.set_input(name, view(static_cast<void*>(x.data()), dtype, shape)).ok());
      };
      set("a", a, of_a);
      set("b", b, of_b);
      EXPECT_TRUE(session.run().ok());
      const auto* const y = session.output("y")->as<uint8_t>();
      return std::vector<uint8_t>(y, y + a.size());
    };
    const std::vector<uint8_t> expected = run({.threads = 1, .disabled_passes = {"programs"}});
    for (const Isa isa : kIsas) {
      if (!supports(isa)) continue;
      limit_isa(isa);
      for (const int threads : {1, 2})
        EXPECT_EQ(run({.threads = threads}), expected) << to_string(isa) << ", trial " << trial;
    }
    limit_isa(best);
  }
}

// Random chains of the steps that quantize and widen numbers, which one block function may compute.
class QuantizedChain : test::Chance {
 public:
  explicit QuantizedChain(uint64_t seed) : Chance(seed) {}

  void run() {
    const int64_t columns = 1 + below(chance(50) ? 40 : 700);
    shape_ = {1 + below(4), columns};
    Graph g;
    // A function of a byte may be computed once for each.
    const bool of_bytes = chance(30);
    if (of_bytes) shape_[1] += 300;
    const auto operand = [&] {
      return input(g, f32,
                   of_bytes || chance(60) ? Sizes{}
                   : chance(50)           ? Sizes{shape_[1]}
                                          : shape_);
    };
    Value x =
        of_bytes ? mul(sub(cast(input(g, chance(50) ? u8 : i8, shape_), f32), operand()), operand())
                 : input(g, f32, shape_);
    if (of_bytes && chance(50)) x = chance(50) ? sigmoid(x) : gelu(x);
    const bool has_many_numbers = of_bytes && chance(30);  // more inputs than a block has
    Value level;
    for (int64_t i = 0, links = 1 + below(has_many_numbers ? 6 : 3); i < links; ++i) {
      const DType byte = chance(50) ? u8 : i8;
      const Value scale = operand(), zero = operand();
      const double low = byte == u8 ? 0 : -128;
      const Value rounded = round(div(x, scale), chance(10) ? 1 : 0);
      const Value sum = chance(50) ? add(rounded, zero) : add(zero, rounded);
      const Value limited = hardtanh(sum, low, chance(90) ? low + 255 : 1e10);
      if (chance(10)) g.output(str_cat("limited", i), limited);  // a second reader
      const Value q = level = cast(limited, byte);
      if (chance(30)) g.output(str_cat("q", i), q);
      const Value number =
          sub(cast(of_bytes || chance(70) ? q : input(g, byte, shape_), f32), zero);
      x = chance(50) ? mul(number, scale) : mul(scale, number);
      if (chance(15)) x = reshape(reshape(x, {shape_[1], shape_[0]}), {shape_[0], shape_[1]});
      if (chance(15)) x = reshape(exp(reshape(x, {shape_[0] * shape_[1]})), {shape_[0], shape_[1]});
      if (!of_bytes && chance(30)) x = add(x, input(g, f32, shape_));
      if (!of_bytes && chance(40))
        x = add(x, mul(sub(cast(input(g, chance(50) ? u8 : i8, shape_), f32), zero), scale));
    }
    g.output("y", of_bytes && chance(50) ? level : x);
    const Model model = must(Model::from_graph(std::move(g)));
    const Isa best = chosen_isa();
    for (const Isa isa : kIsas) {
      if (!supports(isa)) continue;
      limit_isa(isa);
      EXPECT_EQ(bytes(model, {.threads = 2}),
                bytes(model, {.threads = 1, .disabled_passes = {"programs"}}))
          << to_string(isa) << "\n"
          << model.graph().text();
    }
    limit_isa(best);
  }

 private:
  Value input(Graph& g, DType dtype, const Sizes& shape) {
    TensorData data = *TensorData::allocate(dtype, shape);
    constexpr float kSpecial[] = {NAN, HUGE_VALF, -HUGE_VALF, 3e9f, -3e9f, 2147483647.0f, 0, -0.0f};
    for (int64_t i = 0; i < shape.count(); ++i) {
      if (dtype == f32)
        data.tensor.as<float>()[i] =
            chance(3) ? kSpecial[below(8)] : static_cast<float>(below(20001) - 10000) / 37;
      else
        data.tensor.as<uint8_t>()[i] = static_cast<uint8_t>(below(256));
    }
    data_.push_back(std::move(data));
    return g.input(str_cat("in", static_cast<int64_t>(data_.size())), dtype, to_shape(shape));
  }
  std::string bytes(const Model& model, SessionOptions how) {
    Session session = *Session::create(model, std::move(how));
    for (size_t k = 0; k < data_.size(); ++k)
      EXPECT_TRUE(session.set_input(static_cast<int>(k), data_[k].tensor).ok());
    must(session.run());
    std::string all;
    for (int k = 0; k < static_cast<int>(model.graph().outputs().size()); ++k) {
      const Tensor y = *session.output(k);
      if (y.dtype == f32)  // every NaN is the same
        for (int64_t i = 0; i < y.count(); ++i)
          if (std::isnan(y.as<float>()[i])) y.as<float>()[i] = NAN;
      all.append(static_cast<const char*>(y.data), static_cast<size_t>(y.bytes()));
    }
    return all;
  }

  Sizes shape_;
  std::deque<TensorData> data_;
};

TEST(Programs, QuantizeToTheSameBits) {
  test::for_cases(300, [](uint64_t i) { QuantizedChain(i).run(); });
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
    g.output("dy", grad(g.call("sum", {z}), {y})[0]);
    const Model model = must(Model::from_graph(std::move(g)));
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

TEST(Programs, SayWhatIsWrongWithTheirReduction) {
  const auto message = [](const char* program) {
    Graph g;
    const Value x = g.input("x", f32, {4, 3});
    (void)g.call("pointwise_reduction", {x}, {{"program", program}});
    return std::string(g.status().message());
  };
  const auto expect = [&](const char* program, const char* part) {
    EXPECT_NE(message(program).find(part), std::string::npos) << message(program);
  };
  expect("sum x0", "sum must reduce the step before it to one result");
  expect("neg x0; exp s0; sum s0", "sum must reduce the step before it to one result");
  expect("neg x0; max s0 dim=0", "max must reduce the step before it to one result");
  expect("neg x0; sum s0 dim=0,x", "step 1, sum, cannot have 'dim=0,x'");
  expect("neg x0; sum s0 dim=2", "dim");
  EXPECT_EQ(message("neg x0; sum s0 dim=0,-1"), "");
}

}  // namespace
}  // namespace hg
