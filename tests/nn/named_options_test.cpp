// SPDX-License-Identifier: Apache-2.0
// Each option of nn::compile(), as a user sees it: what it changes, and what stays equal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "hg/create.h"
#include "hg/hg.h"
#include "hg/named.h"
#include "tests/support/must.h"

namespace hg {
namespace {

using nn::CompileOptions;
using Names = std::vector<std::string>;

using Optimize = CompileOptions::Optimize;

std::vector<float> floats_of(const Array& array) {
  EXPECT_TRUE(array);
  if (!array) return {};
  const Array dense = *cast(*Array::copy_of(array), f32);
  return std::vector<float>(dense.as<float>(), dense.as<float>() + dense.count());
}

std::vector<std::byte> bytes_of(const NamedArrays& arrays) {
  std::vector<std::byte> all;
  for (const auto& [name, array] : arrays) {
    const Array dense = *Array::copy_of(array);
    all.insert(all.end(), dense.as<std::byte>(), dense.as<std::byte>() + dense.bytes());
  }
  return all;
}

std::vector<std::byte> bytes_of(const nn::Gradients& gradients) {
  std::vector<std::byte> all = bytes_of(gradients.outputs);
  const std::vector<std::byte> more = bytes_of(gradients.parameters);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void expect_near(const Array& a, const Array& b, double tolerance) {
  const std::vector<float> left = floats_of(a), right = floats_of(b);
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i)
    ASSERT_NEAR(left[i], right[i], tolerance * std::max(1.0f, std::abs(right[i]))) << i;
}

nn::Group images() {
  return {nn::Input("x", {"n", 3, 8, 8}),
          nn::Conv2d(8, 3, {.padding = 1}).named("conv"),
          nn::BatchNorm2d().named("norm"),
          nn::ReLU().output("hidden"),
          nn::Call("mean", {{"dim", {2, 3}}}).output("pooled"),
          nn::Linear(5).output("scores"),
          nn::Softmax(1).output("classes")};
}

// Many wide layers, whose results are kept for the gradients.
nn::Group deep(int layers = 12, int64_t width = 64) {
  std::vector<nn::Block> blocks = {nn::Input("x", {"n", width})};
  for (int i = 0; i < layers; ++i) {
    blocks.push_back(nn::Linear(width).named(str_cat("layer", i)));
    blocks.push_back(nn::GELU());
  }
  blocks.push_back(nn::Call("mean").output("loss"));
  return nn::Group(blocks);
}

CompileOptions on_threads(int threads) {
  CompileOptions options;
  options.session.threads = threads;
  return options;
}

TEST(NamedOptions, DTypeIsThatOfOutputsAndGradients) {
  nn::Program exact = must(nn::compile(images(), on_threads(1)));
  const NamedArrays parameters = *exact.initial_parameters(1);
  const NamedArrays data = {{"x", *randn({2, 3, 8, 8}, 1)}},
                    seed = {{"classes", *randn({2, 5}, 2)}};
  const NamedArrays expected = must(exact.evaluate(parameters, data));
  const nn::Gradients gradients = must(exact.evaluate_gradients(parameters, data, seed));
  const std::map<DType, double> tolerances = {{f16, 5e-3}, {bf16, 4e-2}, {f64, 1e-5}};
  for (const auto& [dtype, tolerance] : tolerances) {
    CompileOptions options = on_threads(1);
    options.dtype = dtype;
    nn::Program program = must(nn::compile(images(), options));
    for (const nn::ParameterInfo& info : program.parameters()) EXPECT_EQ(info.dtype, dtype);
    EXPECT_EQ(must(program.initial_parameters())[0].second.dtype(), dtype);
    const NamedArrays outputs = must(program.evaluate(parameters, data));  // converts parameters
    EXPECT_EQ(outputs["classes"].dtype(), dtype);
    expect_near(outputs["classes"], expected["classes"], tolerance);
    const nn::Gradients own = must(program.evaluate_gradients(parameters, data, seed));
    for (const auto& [name, gradient] : own.parameters) {
      EXPECT_EQ(gradient.dtype(), dtype) << name;
      expect_near(gradient, gradients.parameters[name], 4 * tolerance);
    }
  }
}

TEST(NamedOptions, TheDeviceIsChosenOrRefused) {
  CompileOptions options = on_threads(1);
  options.session.device = Device::automatic;
  nn::Program program = must(nn::compile(images(), options));
  EXPECT_NE(program.session().report().find("device cpu"), std::string::npos);
  options.session.device = Device::vulkan;
  options.session.gpu_name = "a device that nobody has";
  EXPECT_FALSE(nn::compile(images(), options).ok());
}

TEST(NamedOptions, OptimizeNoneAndFullAnswerEqually) {
  CompileOptions options = on_threads(1);
  nn::Program full = must(nn::compile(images(), options));
  options.optimize = Optimize::none;
  nn::Program none = must(nn::compile(images(), options));
  const NamedArrays parameters = *full.initial_parameters(1);
  const NamedArrays data = {{"x", *randn({2, 3, 8, 8}, 1)}},
                    seed = {{"classes", *randn({2, 5}, 2)}};
  expect_near(must(full.evaluate(parameters, data))["classes"],
              must(none.evaluate(parameters, data))["classes"], 1e-5);
  EXPECT_LT(full.session().compiled_graph().nodes().size(),
            none.session().compiled_graph().nodes().size());
  const nn::Gradients a = must(full.evaluate_gradients(parameters, data, seed));
  const nn::Gradients b = must(none.evaluate_gradients(parameters, data, seed));
  for (const auto& [name, gradient] : a.parameters) expect_near(gradient, b.parameters[name], 1e-4);
}

TEST(NamedOptions, DeterministicIsBitEqualForEveryNumberOfThreads) {
  std::vector<std::byte> first;
  for (const int threads : {1, 2, 3, 5, 8}) {
    CompileOptions options = on_threads(threads);
    options.deterministic = options.training = true;
    nn::Program program = must(nn::compile(images(), options));
    const NamedArrays parameters = must(program.initial_parameters(1));
    const NamedArrays data = {{"x", *randn({9, 3, 8, 8}, 1)}},
                      seed = {{"classes", *randn({9, 5}, 2)}};
    for (int k = 0; k < 2; ++k) {
      const auto now = bytes_of(must(program.evaluate_gradients(parameters, data, seed)));
      if (first.empty()) first = now;
      EXPECT_EQ(now, first) << threads;
    }
  }
  CompileOptions options;
  options.deterministic = options.session.autotune = true;
  EXPECT_EQ(nn::compile(images(), options).status().code(), Code::invalid_argument);
  options.session.autotune = false;
  options.session.device = Device::automatic;
  EXPECT_EQ(nn::compile(images(), options).status().code(), Code::invalid_argument);
}

TEST(NamedOptions, AutotuneMeasuresAndAnswersEqually) {
  CompileOptions options = on_threads(1);
  nn::Program plain = must(nn::compile(deep(2, 128), options));
  options.session.autotune = true;
  nn::Program tuned = must(nn::compile(deep(2, 128), options));
  const NamedArrays parameters = *plain.initial_parameters(1);
  const NamedArrays data = {{"x", *randn({64, 128}, 1)}};
  expect_near(must(plain.evaluate(parameters, data))["loss"],
              must(tuned.evaluate(parameters, data))["loss"], 1e-5);
  EXPECT_GT(tuned.session().tuning().size(), plain.session().tuning().size());
  options.deterministic = true;  // allowed with earlier measurements
  options.session.tuning = tuned.session().tuning();
  EXPECT_TRUE(nn::compile(deep(2, 128), options).ok());
}

TEST(NamedOptions, MemoryLimitFitsByRecomputingOrFailsBeforeItAllocates) {
  const std::pair<std::string, int64_t> rows[] = {{"n", 256}};
  CompileOptions options = on_threads(1);
  nn::Program free = must(nn::compile(deep(), options));
  ASSERT_TRUE(free.plan_gradients(rows).ok());
  const Memory usual = free.memory_stats().planned;
  options.session.memory_limit = usual.arena_bytes * 7 / 10;
  nn::Program fitted = must(nn::compile(deep(), options));
  must(fitted.plan_gradients(rows));
  const Memory small = fitted.memory_stats().planned;
  EXPECT_LE(small.arena_bytes, options.session.memory_limit);
  EXPECT_GT(small.extra_flops, usual.extra_flops);
  const NamedArrays parameters = *free.initial_parameters(1);
  const NamedArrays data = {{"x", *randn({256, 64}, 1)}};
  EXPECT_EQ(bytes_of(must(free.evaluate_gradients(parameters, data))),
            bytes_of(must(fitted.evaluate_gradients(parameters, data))));
  // Too little memory for any order.
  int arenas = 0;
  options.session.memory_limit = 1000;
  options.on_arena = [&](const nn::ArenaEvent&) { ++arenas; };
  nn::Program never = must(nn::compile(deep(), options));
  const Status status = never.plan_gradients(rows);
  EXPECT_EQ(status.code(), Code::out_of_memory);
  EXPECT_NE(status.message().find("1000 bytes"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("smallest that works is"), std::string::npos);
  EXPECT_EQ(arenas, 0);
  EXPECT_EQ(never.memory_stats().allocations, 0);
}

TEST(NamedOptions, CheckpointKeepsLess) {
  const std::pair<std::string, int64_t> rows[] = {{"n", 256}};
  CompileOptions options = on_threads(1);
  nn::Program whole = must(nn::compile(deep(16), options));
  options.session.checkpoint = Checkpoint::sqrt;
  nn::Program sparing = must(nn::compile(deep(16), options));
  ASSERT_TRUE(whole.plan_gradients(rows).ok());
  ASSERT_TRUE(sparing.plan_gradients(rows).ok());
  EXPECT_LT(sparing.memory_stats().planned.arena_bytes, whole.memory_stats().planned.arena_bytes);
  EXPECT_GT(sparing.memory_stats().planned.extra_flops, 0);
  const NamedArrays parameters = *whole.initial_parameters(1);
  const NamedArrays data = {{"x", *randn({256, 64}, 1)}};
  EXPECT_EQ(bytes_of(must(whole.evaluate_gradients(parameters, data))),
            bytes_of(must(sparing.evaluate_gradients(parameters, data))));
}

TEST(NamedOptions, MemoryIsAllocatedLazilyReleasedAndCounted) {
  int64_t live = 0, events = 0;
  CompileOptions options = on_threads(1);
  options.session.dims = {{"n", 16}};
  options.on_arena = [&](const nn::ArenaEvent& event) {
    EXPECT_NE(event.memory, nullptr);
    live += event.is_free ? -event.bytes : event.bytes;
    ++events;
  };
  {
    nn::Program eager = must(nn::compile(deep(), options));
    EXPECT_EQ(eager.memory_stats().allocations, 1);
    EXPECT_EQ(eager.memory_stats().arena_bytes, live);
    EXPECT_GT(live, 0);
  }
  EXPECT_EQ(live, 0);
  events = 0;
  options.session.lazy_allocation = true;
  nn::Program lazy = must(nn::compile(deep(), options));
  EXPECT_EQ(events, 0);
  EXPECT_GT(lazy.memory_stats().planned.arena_bytes, 0);
  const NamedArrays parameters = *lazy.initial_parameters(1);
  const NamedArrays data = {{"x", *randn({16, 64}, 1)}};
  const auto first = bytes_of(must(lazy.evaluate_gradients(parameters, data)));
  const auto outputs = bytes_of(must(lazy.evaluate(parameters, data)));
  const nn::MemoryStats held = lazy.memory_stats();
  EXPECT_EQ(held.allocations, 2);  // one for evaluations, one for gradients
  EXPECT_EQ(held.arena_bytes, live);
  EXPECT_GE(held.peak_arena_bytes, held.arena_bytes);
  lazy.release_memory();
  EXPECT_EQ(live, 0);
  EXPECT_EQ(lazy.memory_stats().arena_bytes, 0);
  EXPECT_EQ(lazy.memory_stats().frees, 2);
  EXPECT_EQ(bytes_of(must(lazy.evaluate_gradients(parameters, data))), first);
  EXPECT_EQ(bytes_of(must(lazy.evaluate(parameters, data))), outputs);
  EXPECT_EQ(lazy.memory_stats().allocations, 4);
}

TEST(NamedOptions, DebugSeesEveryIntermediate) {
  std::map<std::string, nn::Intermediate> seen;
  Names order;
  CompileOptions options = on_threads(1);
  options.debug = [&](const nn::Intermediate& value) {
    seen[std::string(value.name)] = value;
    order.emplace_back(value.name);
  };
  const nn::Group model = {nn::Input("x", {2, 3}), nn::Tanh().output("hidden"),
                           nn::Group{nn::Call("neg").output("less")}.named("inner"),
                           nn::Call("sqrt").input("inner.less").output("root"),
                           nn::Call("gt").input("hidden").input("inner").output("above")};
  nn::Program program = must(nn::compile(model, options));
  const Array x = *arange(0, 6);
  ASSERT_TRUE(program.evaluate({}, {{"x", *x.reshape({2, 3})}}).ok());
  EXPECT_EQ(order, (Names{"hidden", "inner.less", "above"}));  // the root is not needed
  const nn::Intermediate& hidden = seen["hidden"];
  EXPECT_EQ(hidden.dtype, f32);
  EXPECT_EQ(hidden.shape, (Sizes{2, 3}));
  EXPECT_EQ(hidden.min, 0);
  EXPECT_FLOAT_EQ(static_cast<float>(hidden.max), std::tanh(5.0f));
  EXPECT_FLOAT_EQ(static_cast<float>(seen["inner.less"].min), -std::tanh(5.0f));
  EXPECT_EQ(seen["above"].dtype, boolean);
  EXPECT_EQ(seen["above"].min, 0);
  EXPECT_EQ(seen["above"].max, 1);
  nn::Program roots = must(nn::compile(nn::Block(model).output("root"), options));
  ASSERT_TRUE(roots.evaluate({}, {{"x", *x.reshape({2, 3})}}).ok());
  EXPECT_EQ(seen["root"].min, 0);  // NaN does not count
  EXPECT_EQ(seen["root"].max, 0);
  const size_t forward = order.size();
  nn::Program trained = must(nn::compile(deep(1, 4), options));
  ASSERT_TRUE(
      trained.evaluate_gradients(*trained.initial_parameters(), {{"x", *ones({2, 4})}}).ok());
  EXPECT_GT(order.size(), forward + 6);  // also called for gradients
}

TEST(NamedOptions, HooksLookAtOneValue) {
  nn::Program program = must(nn::compile(images(), on_threads(1)));
  const NamedArrays parameters = must(program.initial_parameters(1));
  const NamedArrays data = {{"x", *randn({2, 3, 8, 8}, 1)}};
  const auto plain = bytes_of(must(program.evaluate(parameters, data)));
  int calls = 0;
  std::vector<float> hidden;
  const auto look = [&](const nn::Intermediate& value) {
    ++calls;
    EXPECT_EQ(value.name, "hidden");
    EXPECT_EQ(value.shape, (Sizes{2, 8, 8, 8}));
    EXPECT_GE(value.min, 0);
    hidden = floats_of(*Array::copy_of(value.value));
    EXPECT_EQ(static_cast<float>(value.max), *std::max_element(hidden.begin(), hidden.end()));
  };
  const int hook = must(program.add_hook("hidden", look));
  const NamedArrays outputs = must(program.evaluate(parameters, data));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(outputs.size(), 1u);
  // The rest of the model reads the same value.
  nn::Program upper = must(nn::compile(nn::Block(images()).output("hidden"), on_threads(1)));
  expect_near(must(upper.evaluate(parameters, data))["hidden"],
              *Array::copy_of(view(hidden, {2, 8, 8, 8})), 1e-6);
  EXPECT_TRUE(program.evaluate_gradients(parameters, data, {{"classes", *ones({2, 5})}}).ok());
  EXPECT_EQ(calls, 2);
  program.remove_hook(hook);
  EXPECT_EQ(bytes_of(must(program.evaluate(parameters, data))), plain);
  EXPECT_EQ(calls, 2);
}

// Hooks and debug are called before any later value is computed, for views too.
TEST(NamedOptions, HooksAreCalledAsValuesAreComputed) {
  for (const int threads : {1, 2}) {
    Names order;
    CompileOptions options = on_threads(threads);
    std::vector<nn::Block> blocks = {
        nn::Input("x", {2, 6}), nn::Call("tanh").output("first"),
        nn::Call("reshape", {{"shape", std::vector<Dim>{3, 4}}}).output("view"),
        nn::Call("softmax", {{"dim", 1}}).output("second"),
        nn::Call("sum").input("second").output("third")};
    const nn::Block plain = nn::Block(nn::Group(blocks)).output("third");
    blocks.push_back(nn::Call("gt").input("third").input("third").output("large"));
    blocks.push_back(
        nn::Call("assert_true", {{"message", "too small"}}).input("large").output("checked"));
    const nn::Block failing = nn::Block(nn::Group(blocks)).output("third").output("checked");
    nn::Program program = must(nn::compile(failing, options));
    for (const char* path : {"third", "view", "first", "second"})
      must(program.add_hook(path, [&, path](const nn::Intermediate& seen) {
        EXPECT_EQ(seen.name, path);
        EXPECT_EQ(seen.shape, seen.value.shape);
        order.emplace_back(path);
      }));
    const Array x = *rand({2, 6}, 1);
    // The run fails at its end, but hooks have seen all earlier values.
    EXPECT_FALSE(program.evaluate({}, {{"x", x}}).ok());
    EXPECT_EQ(order, (Names{"first", "view", "second", "third"})) << threads;

    order.clear();
    nn::Program steps = must(nn::compile(plain, options));
    int hook = 0;
    hook = must(steps.add_hook("second", [&](const nn::Intermediate&) {
      order.emplace_back("second");
      steps.remove_hook(hook);
    }));
    ASSERT_TRUE(steps.begin({}, {{"x", x}}).ok());
    while (order.empty()) ASSERT_TRUE((*steps.step()).has_value());
    EXPECT_TRUE((*steps.step()).has_value());  // the sum has not run yet
    EXPECT_TRUE(steps.finish().ok());
    EXPECT_EQ(order, (Names{"second"}));
    ASSERT_TRUE(steps.evaluate({}, {{"x", x}}).ok());
    EXPECT_EQ(order, (Names{"second"}));
  }
}

TEST(NamedOptions, SingleStepsMakeTheWholeRun) {
  CompileOptions options = on_threads(1);
  options.optimize = Optimize::none;
  nn::Program program = must(nn::compile(images(), options));
  const NamedArrays parameters = must(program.initial_parameters(1));
  const NamedArrays data = {{"x", *randn({2, 3, 8, 8}, 1)}};
  const auto expected = bytes_of(must(program.evaluate(parameters, data)));
  ASSERT_TRUE(program.begin(parameters, data).ok());
  Names modules;
  bool saw_hidden = false;
  while (true) {
    const std::optional<StepRow> row = must(program.step());
    if (!row.has_value()) break;
    modules.push_back(row->module);
    for (const auto& [name, value] : row->outputs)
      if (name == "hidden") {
        saw_hidden = true;
        EXPECT_EQ(value.shape, (Sizes{2, 8, 8, 8}));
      }
  }
  EXPECT_TRUE(saw_hidden);
  EXPECT_EQ(modules.front(), "conv");
  EXPECT_FALSE(program.step()->has_value());
  EXPECT_EQ(bytes_of(must(program.finish())), expected);
  EXPECT_FALSE(program.step().ok());
  ASSERT_TRUE(program.begin(parameters, data).ok());  // finish() runs the remaining steps
  ASSERT_TRUE(program.step()->has_value());
  EXPECT_EQ(bytes_of(must(program.finish())), expected);
  EXPECT_FALSE(program.finish().ok());
  ASSERT_TRUE(program.begin(parameters, data).ok());
  EXPECT_EQ(bytes_of(must(program.evaluate(parameters, data))), expected);  // gives up the run
  EXPECT_FALSE(program.finish().ok());
}

TEST(NamedOptions, ProfileIsSortedByTime) {
  CompileOptions options = on_threads(1);
  options.session.profile = true;
  nn::Program program = must(nn::compile(images(), options));
  const NamedArrays parameters = must(program.initial_parameters(1));
  ASSERT_TRUE(program.evaluate(parameters, {{"x", *randn({2, 3, 8, 8}, 1)}}).ok());
  const std::vector<ProfileRow> rows = program.profile();
  ASSERT_GT(rows.size(), 2u);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end(),
                             [](const auto& a, const auto& b) { return a.ms > b.ms; }));
  EXPECT_GT(rows[0].ms, 0);
  EXPECT_TRUE(std::any_of(rows.begin(), rows.end(),
                          [](const ProfileRow& row) { return row.module == "conv"; }));
}

TEST(NamedOptions, ACacheGivesEqualModelsWhatOneCompiled) {
  CompileOptions options = on_threads(1);
  options.cache.emplace();
  options.session.dims = {{"n", 16}};
  nn::Program first = must(nn::compile(deep(), options));
  nn::Program second = must(nn::compile(deep(), options));  // another, equal model
  EXPECT_EQ(options.cache->counters().hits, 1);
  EXPECT_EQ(options.cache->counters().misses, 1);
  const NamedArrays parameters = *first.initial_parameters(1);
  const NamedArrays data = {{"x", *randn({16, 64}, 1)}};
  EXPECT_EQ(bytes_of(must(first.evaluate(parameters, data))),
            bytes_of(must(second.evaluate(parameters, data))));
  CompileOptions other = options;
  other.dtype = bf16;
  EXPECT_EQ(must(must(nn::compile(deep(), other)).evaluate(parameters, data))["loss"].dtype(),
            bf16);
  EXPECT_EQ(options.cache->counters().misses, 2);
  // The elements of constants are compared too.
  options.session.dims.clear();
  const Array shift = *full({3}, 1);
  const auto shifted = [&] {
    return nn::Group{nn::Input("x", {3}), nn::Constant("shift", shift),
                     nn::Call("add").input("x").input("shift").output("y")};
  };
  const NamedArrays zero = {{"x", *zeros({3})}};
  EXPECT_EQ(floats_of(must(must(nn::compile(shifted(), options)).evaluate({}, zero))["y"])[0], 1);
  Array written = shift;
  written.write<float>()[0] = 5;
  EXPECT_EQ(floats_of(must(must(nn::compile(shifted(), options)).evaluate({}, zero))["y"])[0], 5);
}

TEST(NamedOptions, ConstantsAreFolded) {
  const Array table = *arange(0, 16);
  const nn::Group model = {nn::Input("x", {"n", 4}),
                           nn::Constant("table", *table.reshape({4, 4})),
                           nn::Call("permute", {{"dims", {1, 0}}}).input("table").output("t"),
                           nn::Call("exp").input("t").output("e"),
                           nn::Call("log").output("w"),
                           nn::Linear(4).input("x").output("h"),
                           nn::Call("matmul").input("h").input("w").output("y")};
  CompileOptions options = on_threads(1);
  nn::Program folded = must(nn::compile(model, options));
  options.optimize = Optimize::none;
  nn::Program whole = must(nn::compile(model, options));
  const auto has = [](const nn::Program& program, std::string_view op) {
    const auto& nodes = program.session().compiled_graph().nodes();
    return std::any_of(nodes.begin(), nodes.end(),
                       [&](const Node& node) { return node.op->name() == op; });
  };
  EXPECT_TRUE(has(whole, "log"));
  EXPECT_FALSE(has(folded, "log"));
  EXPECT_FALSE(has(folded, "exp"));
  const NamedArrays parameters = *folded.initial_parameters(1);
  const NamedArrays data = {{"x", *randn({3, 4}, 1)}};
  expect_near(must(folded.evaluate(parameters, data))["y"],
              must(whole.evaluate(parameters, data))["y"], 1e-5);
  // Parameters with constant values are not inputs any more.
  CompileOptions fixed = on_threads(1);
  fixed.constants = parameters;
  nn::Program inference = must(nn::compile(model, fixed));
  EXPECT_TRUE(inference.parameters().empty());
  expect_near(must(inference.evaluate({}, data))["y"], must(folded.evaluate(parameters, data))["y"],
              1e-5);
  fixed.constants = {{"nothing", table}};
  EXPECT_EQ(nn::compile(model, fixed).status().code(), Code::not_found);
}

}  // namespace
}  // namespace hg
