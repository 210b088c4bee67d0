// SPDX-License-Identifier: Apache-2.0
// Named models: wires, scopes and shapes, inputs and outputs of programs, and each option of
// compile().
#include "hg/named.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "hg/create.h"
#include "hg/executor.h"
#include "hg/hg.h"
#include "hg/quantize.h"
#include "hg/train.h"
#include "tests/support/must.h"

namespace hg {
namespace {

using nn::CompileOptions;
using Names = std::vector<std::string>;

// Compiles for one thread, unless the options say otherwise.
Result<nn::Program> compiled(const nn::Block& model, CompileOptions options = {}) {
  if (options.session.threads == 0) options.session.threads = 1;
  return nn::compile(model, std::move(options));
}

std::vector<float> floats_of(const Array& array) {
  EXPECT_TRUE(array);
  if (!array) return {};
  const Array dense = *cast(*Array::copy_of(array), f32);
  return std::vector<float>(dense.as<float>(), dense.as<float>() + dense.count());
}

void expect_near(const Array& a, const Array& b, double tolerance) {
  const std::vector<float> left = floats_of(a), right = floats_of(b);
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i)
    EXPECT_NEAR(left[i], right[i], tolerance * std::max(1.0f, std::abs(right[i])));
}

template <class T>
void expect_message(const Result<T>& result, std::initializer_list<std::string_view> parts) {
  ASSERT_FALSE(result.ok());
  const std::string message(result.status().message());
  for (const std::string_view part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks " << part;
}

Names names_of(const NamedArrays& arrays) {
  Names names;
  for (const auto& [name, array] : arrays) names.push_back(name);
  return names;
}

// Two wires, one unnamed block, and a group that is used twice.
nn::Group classifier() {
  const nn::Block residual = nn::Group{nn::Linear(16).named("up"), nn::Tanh(),
                                       nn::Linear(8).named("down").output("change"),
                                       nn::Call("add").input("h").input("change").output("sum")};
  return {nn::Input("x", {"n", 4}),
          nn::Linear(8).input("x").output("hidden"),
          nn::ReLU(),
          residual.input("2", "h").output("deep"),
          residual.named("again").input("deep", "h"),
          nn::Linear(3).output("scores")};
}

// The same model, built by hand.
Model classifier_by_hand() {
  Graph g;
  const auto parameter = [&](const char* name, const Sizes& shape) {
    return g.parameter(name, f32, shape);
  };
  const Value x = g.input("x", f32, {"n", 4});
  Value h = relu(linear(x, parameter("hidden.weight", {8, 4}), parameter("hidden.bias", {8})));
  for (const std::string block : {"deep", "again"}) {
    const Value up = tanh(linear(h, parameter((block + ".up.weight").c_str(), {16, 8}),
                                 parameter((block + ".up.bias").c_str(), {16})));
    h = h + linear(up, parameter((block + ".down.weight").c_str(), {8, 16}),
                   parameter((block + ".down.bias").c_str(), {8}));
  }
  g.output("scores", linear(h, parameter("scores.weight", {3, 8}), parameter("scores.bias", {3})));
  return must(Model::from_graph(std::move(g)));
}

// Runs the model with these parameters.
Model with(Model model, const NamedArrays& parameters) {
  for (const State& state : model.graph().states())
    if (const Array* const given = parameters.find(state.name))
      copy_elements(*given, state.data.tensor);
  return model;
}

// -- Structure ------------------------------------------------------------------------------------

TEST(Named, WiresByNameAndInLine) {
  nn::Program program = must(compiled(classifier()));
  EXPECT_EQ(program.inputs(), (Names{"x"}));
  EXPECT_EQ(program.outputs(), (Names{"scores"}));
  Names names;
  for (const nn::ParameterInfo& info : program.parameters()) names.push_back(info.name);
  EXPECT_EQ(names, (Names{"hidden.weight", "hidden.bias", "deep.up.weight", "deep.up.bias",
                          "deep.down.weight", "deep.down.bias", "again.up.weight", "again.up.bias",
                          "again.down.weight", "again.down.bias", "scores.weight", "scores.bias"}));
  const NamedArrays parameters = must(program.initial_parameters(3));
  EXPECT_EQ(names_of(parameters), names);
  for (const int64_t rows : {1, 0, 7}) {
    const Array x = *randn({rows, 4}, 5);
    const NamedArrays outputs = must(program.evaluate(parameters, {{"x", x}}));
    Session hand = *Session::create(with(classifier_by_hand(), parameters), {.threads = 1});
    ASSERT_TRUE(hand.set_input("x", x).ok());
    ASSERT_TRUE(hand.run().ok());
    ASSERT_EQ(outputs["scores"].shape(), (Sizes{rows, 3}));
    expect_near(outputs["scores"], *Array::copy_of(*hand.output("scores")), 1e-6);
  }
}

TEST(Named, StartAsLayersDo) {
  nn::Sequential net = {nn::Linear(4, 8), nn::ReLU(), nn::Sequential{nn::Linear(8, 3)}};
  ASSERT_TRUE(net.initialise(11).ok());
  const nn::Group model = {nn::Input("x", {"n", 4}), nn::Block(net).named("net")};
  nn::Program program = must(compiled(model));
  const NamedArrays parameters = must(program.initial_parameters(11));
  const NamedArrays own = *net.parameters();
  ASSERT_EQ(parameters.size(), own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(parameters[i].first, "net." + own[i].first);
    EXPECT_EQ(floats_of(parameters[i].second), floats_of(own[i].second));
  }
  EXPECT_EQ(program.outputs(), (Names{"net"}));
  Executor ex = *Executor::create({.threads = 1});
  const Array x = *randn({5, 4}, 1);
  expect_near(must(program.evaluate(parameters, {{"x", x}}))["net"], *net(ex, x), 1e-6);
}

TEST(Named, BlocksComeInTheOrderOfTheirWires) {
  const nn::Group model = {nn::Call("add").input("a").input("b").output("sum"),
                           nn::Tanh().input("a").output("b"), nn::Sigmoid().input("x").output("a"),
                           nn::Input("x", {3}), nn::ReLU().input("sum").output("y")};
  nn::Program program = must(compiled(model));
  const NamedArrays y = must(program.evaluate({}, {{"x", *zeros({3})}}));
  EXPECT_NEAR(floats_of(y["y"])[0], 0.5 + std::tanh(0.5), 1e-6);
}

TEST(Named, InnerValuesAreKnownByPath) {
  const nn::Group model = {nn::Input("x", {2}),
                           nn::Group{nn::Tanh().output("t"),
                                     nn::Group{nn::Sigmoid().output("s"), nn::ReLU()}.output("g")}
                               .named("a"),
                           nn::Call("add").input("a.t").input("a.g.s").output("y")};
  nn::Program program = must(compiled(model));
  const Array x = *ones({2});
  const double t = std::tanh(1.0);
  EXPECT_NEAR(floats_of(must(program.evaluate({}, {{"x", x}}))["y"])[0], t + 1 / (1 + std::exp(-t)),
              1e-6);
}

TEST(Named, GroupsHideNamesAndSeeThoseAround) {
  const nn::Group model = {
      nn::Input("x", {2}), nn::Call("mul").input("x").input("x").output("two"),
      nn::Group{nn::Call("exp").input("x").output("two"),  // hides the outer "two"
                nn::Call("add").input("two").input("x").output("y")}
          .input("x")
          .output("inner", "y"),
      nn::Call("add").input("inner").input("two").output("out")};
  nn::Program program = must(compiled(model));
  const Array x = *full({2}, 3);
  EXPECT_NEAR(floats_of(must(program.evaluate({}, {{"x", x}}))["out"])[0], std::exp(3) + 3 + 9,
              1e-4);
}

TEST(Named, SharedParametersAreOne) {
  const nn::Group model = {nn::Input("x", {"n", 4}), nn::Linear(4).output("a"),
                           nn::Linear(4).share("a").output("b")};
  nn::Program program = must(compiled(model));
  ASSERT_EQ(program.parameters().size(), 2u);
  NamedArrays parameters = must(program.initial_parameters());
  const Array x = *randn({2, 4}, 1);
  Executor ex = *Executor::create({.threads = 1});
  const Array w = parameters["a.weight"], b = parameters["a.bias"];
  expect_near(must(program.evaluate(parameters, {{"x", x}}))["b"],
              *ex.linear(*ex.linear(x, w, b), w, b), 1e-6);
  expect_message(compiled(nn::Group{nn::Input("x", {"n", 4}), nn::Linear(5).output("a"),
                                    nn::Linear(4).share("a").output("b")}),
                 {"'b' (Linear)", "'a.weight'", "[5, 4]", "[4, 5]"});
}

TEST(Named, OwnParametersConstantsAndSeveralOutputs) {
  const nn::Group model = nn::Group{
      nn::Input("x", {"n", 6}),
      nn::Parameter("scale", {6}, init::uniform(1, 2, 0)),
      nn::Constant("shift", *full({6}, 0.5)),
      nn::Call("mul").input("x").input("scale").output("scaled"),
      nn::Call("add").input("scaled").input("shift").output("moved"),
      nn::Call("topk", {{"k", 1}, {"dim", 1}}).input("moved").output("most").output("where")};
  nn::Block both = model;
  both = both.output("most").output("where").output("scaled");
  nn::Program program = must(compiled(both));
  EXPECT_EQ(program.outputs(), (Names{"most", "where", "scaled"}));
  const NamedArrays parameters = *program.initial_parameters(2);
  for (const float scale : floats_of(parameters["scale"])) {
    EXPECT_GE(scale, 1);
    EXPECT_LE(scale, 2);
  }
  const Array x = *ones({2, 6});
  const NamedArrays outputs = *program.evaluate(parameters, {{"x", x}});
  const std::vector<float> scales = floats_of(parameters["scale"]);
  EXPECT_FLOAT_EQ(floats_of(outputs["most"])[1],
                  *std::max_element(scales.begin(), scales.end()) + 0.5f);
  EXPECT_EQ(outputs["where"].dtype(), i64);
}

TEST(Named, UnusedInputsAreDiscarded) {
  const nn::Group model = nn::Group{nn::Input("x", {"n", 4}), nn::Input("unused", {"n", 1000}),
                                    nn::Linear(2).input("x").output("y"),
                                    nn::Linear(3).input("unused").output("aside")};
  const nn::Block chosen = nn::Block(model).output("y");
  nn::Program program = must(compiled(chosen));
  EXPECT_EQ(program.inputs(), (Names{"x"}));
  EXPECT_EQ(program.parameters().size(), 2u);
  const NamedArrays parameters = must(program.initial_parameters());
  const Array x = *randn({3, 4}, 1);
  EXPECT_TRUE(program.evaluate(parameters, {{"x", x}}).ok());
  EXPECT_TRUE(program.evaluate(parameters, {{"x", x}, {"unused", x}}).ok());  // it is not checked
  expect_message(program.evaluate(parameters, {{"x", x}, {"y", x}}), {"'y'", "x, unused"});
}

TEST(Named, SummaryIsATable) {
  nn::Program program = must(compiled(classifier(), {.frozen = {"hidden.*"}}));
  const std::string table = program.summary();
  for (const char* part :
       {"hidden ", "Linear(in_features=4, out_features=8, bias=True)", "f32[n, 8]", " 40\n",
        "  deep.up ", "280", "627 parameters, 587 of them trainable"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  EXPECT_NE(nn::summary(classifier())->find("627 parameters, 627"), std::string::npos);
}

// -- Errors ---------------------------------------------------------------------------------------

TEST(NamedErrors, NameBothEndsOfTheWire) {
  const nn::Group model = {nn::Input("x", {"n", 784}), nn::Linear(64).input("x").output("hidden"),
                           nn::Linear(32, 10).input("hidden").output("scores")};
  expect_message(compiled(model),
                 {"'scores' (Linear)", "'hidden'", "f32[n, 64]", "'hidden' (Linear)", "[10, 32]"});
  const nn::Group inside = {
      nn::Input("x", {"n", 6}),
      nn::Group{
          nn::Group{nn::Linear(5).output("five"), nn::Call("add").input("five").input("x")}.named(
              "b")}
          .named("a")};
  expect_message(compiled(inside),
                 {"'a.b.1' (add)", "'a.b.five' f32[n, 5] from 'a.b.five' (Linear)",
                  "'x' f32[n, 6] from 'x' (Input)"});
}

TEST(NamedErrors, SayWhatIsThere) {
  const nn::Input x("x", {"n", 4});
  expect_message(compiled(nn::Group{x, nn::Linear(2).input("y")}), {"'1' (Linear)", "'y'", "x"});
  expect_message(compiled(nn::Group{x, nn::Linear(2).output("x")}),
                 {"two blocks give 'x'", "Input", "Linear"});
  expect_message(
      compiled(nn::Group{x, nn::Tanh().input("b").output("a"), nn::Tanh().input("a").output("b")}),
      {"circle", "'a' (Tanh)", "'b'"});
  expect_message(compiled(nn::Group{nn::Linear(2)}), {"'0' (Linear)", "no input"});
  expect_message(compiled(nn::Group{x, nn::Call("lineer")}), {"'1' (lineer)", "linear"});
  expect_message(compiled(nn::Group{x, nn::Call("softmax", {{"dmi", 1}})}), {"'dmi'"});
  expect_message(compiled(nn::Group{}), {"without blocks"});
  expect_message(compiled(nn::Group{x, nn::Linear(2)}, {.dtype = i32}), {"i32"});
  expect_message(compiled(nn::Group{x, nn::Linear(2)}, {.frozen = {"head.*"}}), {"'head.*'"});
  expect_message(compiled(nn::Group{nn::Input("x", {3, "n"}), nn::Linear(2)}),
                 {"in_features", "f32[3, n]"});
  expect_message(compiled(nn::Block(classifier()).output("nothing")), {"'nothing'"});
  nn::Block odd = nn::Linear(3);
  odd.settings.emplace_back("weight", 3);
  expect_message(compiled(nn::Group{x, odd}), {"'weight'", "out_features"});
  odd = nn::Block();
  odd.type = "Linar";
  expect_message(compiled(nn::Group{x, odd}), {"'Linar'", "Linear"});
}

TEST(NamedErrors, OfCallsNameWhatIsMissing) {
  nn::Program program = must(compiled(classifier()));
  NamedArrays parameters = must(program.initial_parameters());
  const Array x = *randn({2, 4}, 1);
  expect_message(program.evaluate(parameters, {}), {"'x'", "f32[n, 4]"});
  expect_message(program.evaluate({}, {{"x", x}}), {"'hidden.weight'", "f32[8, 4]"});
  expect_message(program.evaluate(parameters, {{"x", *randn({2, 5}, 1)}}), {"'x'", "[2, 5]"});
  expect_message(program.evaluate(parameters, {{"x", *zeros({2, 4}, i64)}}), {"'x'", "i64"});
  Array gone = *Array::copy_of(x);
  gone.free();
  expect_message(program.evaluate(parameters, {{"x", gone}}), {"'x'", "freed"});
  expect_message(program.evaluate_gradients(parameters, {{"x", x}}, {{"y", x}}), {"'y'"});
  expect_message(program.evaluate_gradients(parameters, {{"x", x}}, {{"scores", x}}),
                 {"'scores'", "[2, 4]"});
  expect_message(program.add_hook("hiden", [](const nn::Intermediate&) {}), {"'hiden'", "hidden"});
  EXPECT_EQ(program.state("hidden").status().code(), Code::not_found);
  EXPECT_TRUE(program.evaluate(parameters, {{"x", x}}).ok());  // the program still works
}

// -- Gradients ------------------------------------------------------------------------------------

TEST(NamedGradients, ComeOutByNameAndDriveAnyOptimizer) {
  const nn::Group model = {
      nn::Input("x", {"n", 4}),  nn::Input("target", {"n", 2}),
      nn::Linear(16).input("x"), nn::Tanh(),
      nn::Linear(2).output("y"), nn::MSELoss().input("y").input("target").output("loss")};
  nn::Program program = must(compiled(model));
  NamedArrays parameters = must(program.initial_parameters(1));
  const Array x = *randn({32, 4}, 2), target = *rand({32, 2}, 3);
  const NamedArrays data = {{"x", x}, {"target", target}};
  nn::Gradients gradients;
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    ASSERT_TRUE(program.evaluate_gradients_into(parameters, data, {}, gradients).ok());
    last = floats_of(gradients.outputs["loss"])[0];
    if (step == 0) first = last;
    EXPECT_EQ(names_of(gradients.parameters), names_of(parameters));
    for (auto& [name, parameter] : parameters) {  // the application's own optimizer
      const float* const gradient = gradients.parameters.find(name)->as<float>();
      float* const values = parameter.write<float>();
      for (int64_t i = 0; i < parameter.count(); ++i) values[i] -= 0.1f * gradient[i];
    }
  }
  EXPECT_LT(last, 0.25 * first);
  // evaluate() reads the current elements of the same arrays.
  ASSERT_TRUE(program.evaluate_gradients_into(parameters, data, {}, gradients).ok());
  EXPECT_EQ(floats_of(must(program.evaluate(parameters, data))["loss"]),
            floats_of(gradients.outputs["loss"]));
}

TEST(NamedGradients, OfOutputsThatAreWeighted) {
  const nn::Group model = nn::Group{nn::Input("x", {"n", 3}), nn::Linear(2).input("x").output("a"),
                                    nn::Tanh().input("a").output("b")};
  CompileOptions options;
  options.gradients_of = {"x", "a"};
  nn::Program program = must(compiled(nn::Block(model).output("a").output("b"), options));
  const NamedArrays parameters = must(program.initial_parameters(1));
  const Array x = *randn({4, 3}, 2), da = *randn({4, 2}, 3), db = *randn({4, 2}, 4);
  const auto both =
      must(program.evaluate_gradients(parameters, {{"x", x}}, {{"b", db}, {"a", da}}));
  const auto left = must(program.evaluate_gradients(parameters, {{"x", x}}, {{"a", da}}));
  const auto right = must(program.evaluate_gradients(parameters, {{"x", x}}, {{"b", db}}));
  EXPECT_EQ(names_of(both.values), (Names{"x", "a"}));
  for (const auto& [name, sum] : both.parameters) {
    const std::vector<float> s = floats_of(sum), l = floats_of(left.parameters[name]),
                             r = floats_of(right.parameters[name]);
    for (size_t i = 0; i < s.size(); ++i) EXPECT_NEAR(s[i], l[i] + r[i], 1e-5);
  }
  EXPECT_EQ(floats_of(left.values["a"]), floats_of(da));
  const std::vector<float> b = floats_of(both.outputs["b"]), d = floats_of(right.values["a"]);
  for (size_t i = 0; i < d.size(); ++i)
    EXPECT_NEAR(d[i], floats_of(db)[i] * (1 - b[i] * b[i]), 1e-5);
  expect_message(program.evaluate_gradients(parameters, {{"x", x}}), {"2 outputs"});
}

TEST(NamedGradients, ParametersAreFrozenOrTrainableByName) {
  nn::Program program =
      must(compiled(classifier(), {.frozen = {"*"}, .trainable = {"deep.*", "scores.bias"}}));
  Names trainable;
  for (const nn::ParameterInfo& info : program.parameters())
    if (info.is_trainable) trainable.push_back(info.name);
  EXPECT_EQ(trainable, (Names{"deep.up.weight", "deep.up.bias", "deep.down.weight",
                              "deep.down.bias", "scores.bias"}));
  const NamedArrays parameters = must(program.initial_parameters());
  const NamedArrays data = {{"x", *randn({2, 4}, 1)}}, seed = {{"scores", *ones({2, 3})}};
  const auto some = must(program.evaluate_gradients(parameters, data, seed));
  EXPECT_EQ(names_of(some.parameters), trainable);
  nn::Program all = must(compiled(classifier()));
  const auto whole = must(all.evaluate_gradients(parameters, data, seed));
  EXPECT_EQ(whole.parameters.size(), 12u);
  for (const std::string& name : trainable)
    expect_near(some.parameters[name], whole.parameters[name], 1e-6);
}

// -- States ---------------------------------------------------------------------------------------

nn::Group with_statistics() {
  return {nn::Input("x", {"n", 3, 4, 4}), nn::Conv2d(6, 3, {.padding = 1}).named("conv"),
          nn::BatchNorm2d().named("norm"), nn::ReLU().output("y")};
}

TEST(NamedStates, AreReadAndSetByName) {
  nn::Program training = must(compiled(with_statistics(), {.training = true}));
  const NamedArrays parameters = *training.initial_parameters(1);
  EXPECT_EQ(names_of(training.states()),
            (Names{"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}));
  const NamedArrays data = {{"x", *randn({5, 3, 4, 4}, 2)}};
  const std::vector<float> before = floats_of(must(training.state("norm.running_mean")));
  EXPECT_EQ(before, std::vector<float>(6, 0));
  // A layer that runs eagerly updates them in the same way.
  Executor ex = *Executor::create({.threads = 1});
  nn::BatchNorm2d norm(6);
  const Array conv =
      *ex.call("conv", {data["x"], parameters["conv.weight"], parameters["conv.bias"]},
               {{"padding", {1, 1}}});
  for (int i = 0; i < 3; ++i) {
    const Array y = must(training.evaluate(parameters, data))["y"];
    expect_near(y, *ex.relu(*norm(ex, conv)), 2e-5);
  }
  const NamedArrays own = *norm.buffers();
  expect_near(must(training.state("norm.running_mean")), own["running_mean"], 1e-5);
  expect_near(must(training.state("norm.running_var")), own["running_var"], 1e-5);
  EXPECT_EQ(training.state("norm.num_batches_tracked")->as<int64_t>()[0], 3);
  // Inference with the states after training.
  nn::Program inference = must(compiled(with_statistics()));
  for (const auto& [name, state] : training.states())
    ASSERT_TRUE(inference.set_state(name, state).ok());
  norm.eval();
  expect_near(must(inference.evaluate(parameters, data))["y"], *ex.relu(*norm(ex, conv)), 2e-5);
  EXPECT_EQ(inference.state("norm.num_batches_tracked")->as<int64_t>()[0], 3);
  Array mean = *inference.state("norm.running_mean");  // writing to the array changes the state
  std::fill_n(mean.write<float>(), 6, 1000.0f);
  EXPECT_EQ(floats_of(must(inference.evaluate(parameters, data))["y"])[0], 0);
  EXPECT_EQ(inference.set_state("norm.running_mean", *zeros({5})).code(), Code::invalid_argument);
}

TEST(NamedStates, FrozenLayersKeepTheirs) {
  nn::Program program = must(compiled(with_statistics(), {.training = true, .frozen = {"norm.*"}}));
  const NamedArrays parameters = must(program.initial_parameters(1));
  ASSERT_TRUE(program.evaluate(parameters, {{"x", *randn({5, 3, 4, 4}, 2)}}).ok());
  EXPECT_EQ(floats_of(must(program.state("norm.running_mean"))), std::vector<float>(6, 0));
  EXPECT_EQ(program.state("norm.num_batches_tracked")->as<int64_t>()[0], 0);
}

// A named model is trained, saved, loaded, run by a session and quantized.
TEST(NamedModels, AreTrainedSavedAndQuantized) {
  const nn::Group blocks = {nn::Input("x", {"n", 3, 4, 4}),
                            nn::Conv2d(8, 3, {.padding = 1}).named("conv"),
                            nn::BatchNorm2d().named("norm"),
                            nn::ReLU(),
                            nn::Call("mean", {{"dim", std::vector<Dim>{2, 3}}}),
                            nn::Linear(2).named("last").output("y")};
  nn::Program program = must(compiled(blocks));
  const NamedArrays parameters = must(program.initial_parameters(1));
  const Array x = *randn({16, 3, 4, 4}, 2), target = *randn({16, 2}, 3);
  const Array y = must(program.evaluate(parameters, {{"x", x}}))["y"];
  const Model model = must(program.model(parameters));
  Trainer trainer = must(Trainer::create(model, {.optimizer = adamw(0.02)}));
  const double first = must(trainer.evaluate({{x}, {target}})).loss;
  ASSERT_TRUE(trainer.fit({{x}, {target}}, {.epochs = 60, .batch = 16}).ok());
  EXPECT_LT(must(trainer.evaluate({{x}, {target}})).loss, first / 2);
  const std::string path = testing::TempDir() + "named_test.hgm";
  ASSERT_TRUE(model.save(path).ok());
  const auto run = [&](const Model& from) {
    Session session = must(Session::create(from));
    EXPECT_TRUE(session.set_input("x", x).ok() && session.run().ok());
    return must(Array::copy_of(must(session.output("y"))));
  };
  expect_near(run(must(Model::load(path))), y, 1e-5);  // untrained: the program's values
  const Model trained = must(trainer.model());
  ASSERT_TRUE(trained.save(path).ok());
  const Array now = run(must(Model::load(path)));
  const Quantized small = must(quantize(must(Model::load(path)), {.least = 16}));
  EXPECT_FALSE(small.weights.empty());
  ASSERT_TRUE(small.model.save(path).ok());
  expect_near(run(must(Model::load(path))), now, 0.05);
  std::remove(path.c_str());
  NamedArrays incomplete = {parameters.begin(), parameters.end() - 1};
  EXPECT_EQ(program.model(incomplete).status().code(), Code::invalid_argument);
}

TEST(NamedStates, DropoutDropsInTraining) {
  const nn::Group model = {nn::Input("x", {1000}), nn::Dropout(0.5).output("y")};
  const Array x = *ones({1000});
  nn::Program training = must(compiled(model, {.training = true}));
  const std::vector<float> first = floats_of(must(training.evaluate({}, {{"x", x}}))["y"]);
  EXPECT_NEAR(double(std::count(first.begin(), first.end(), 0.0f)), 500, 100);
  EXPECT_NE(floats_of(must(training.evaluate({}, {{"x", x}}))["y"]), first);
  nn::Program again = must(compiled(model, {.training = true}));
  EXPECT_EQ(floats_of(must(again.evaluate({}, {{"x", x}}))["y"]), first);  // equal seeds
  nn::Program inference = must(compiled(model));
  EXPECT_EQ(floats_of(must(inference.evaluate({}, {{"x", x}}))["y"]), std::vector<float>(1000, 1));
}

}  // namespace
}  // namespace hg
