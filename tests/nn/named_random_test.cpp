// SPDX-License-Identifier: Apache-2.0
// Random networks of named blocks against the same graph built by hand: outputs and gradients of a
// plain session, and a Trainer's step.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "hg/train.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"
#include "tests/nn/random_named.h"

namespace hg {
namespace {

void expect_near(const std::string& what, const Array& a, const Tensor& b, double tolerance) {
  ASSERT_TRUE(a) << what;
  ASSERT_EQ(a.shape(), b.shape) << what;
  const Array left = *cast(*a.contiguous(), f64), right = *cast(*Array::copy_of(b), f64);
  for (int64_t i = 0; i < left.count(); ++i) {
    const double l = left.as<double>()[i], r = right.as<double>()[i];
    if (std::isnan(l) && std::isnan(r)) continue;  // means of no elements
    ASSERT_NEAR(l, r, tolerance * (1 + std::abs(r))) << what << " at " << i;
  }
}

struct Case {
  Case(uint64_t seed, DType dtype) : random(seed, dtype) {
    rows = random.below(4) == 0 ? random.below(2) : 1 + random.below(5);
    for (const auto& [name, width] : random.data_widths)
      data.emplace_back(name, *randn({rows, width}, seed + 1, dtype));
    for (const auto& [name, shape] : random.parameters)
      parameters.emplace_back(name, *randn(shape, seed + parameters.size(), dtype));
  }
  test::RandomNamed random;
  int64_t rows = 0;
  NamedArrays data, parameters;
};

// Runs the hand-built graph: loss, result, and the loss's gradients by the parameters.
void run_by_hand(Case& c, Session& session) {
  for (int i = 0; i < session.input_count(); ++i) {
    const std::string_view name = session.input_name(i);
    const Array* given = c.data.find(name);
    if (given == nullptr) given = c.parameters.find(name);
    ASSERT_TRUE(session.set_input(i, *given).ok());
  }
  ASSERT_TRUE(session.run().ok());
}

void compare(uint64_t seed, DType dtype, double tolerance) {
  Case c(seed, dtype);
  nn::CompileOptions options;
  options.dtype = dtype;
  options.session.threads = 1 + c.random.below(2);
  options.optimize = c.random.below(3) == 0 ? nn::CompileOptions::Optimize::none
                                            : nn::CompileOptions::Optimize::full;
  options.session.lazy_allocation = c.random.below(2) == 0;
  nn::Program program = must(nn::compile(c.random.model, options));

  Graph& graph = c.random.graph;
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  std::vector<Value> wrt;
  for (const auto& [name, shape] : c.random.parameters)
    for (const ValueId id : graph.inputs())
      if (graph.value_info(id).name == name) wrt.push_back(graph.value(id));
  const Graph forward = graph;
  const Value loss = graph.value(graph.outputs()[0].second);
  const std::vector<Value> by_hand = grad(std::span(&loss, 1), wrt);
  for (size_t i = 0; i < by_hand.size(); ++i)
    graph.output(str_cat("gradient", int64_t(i)), by_hand[i]);
  Session session = *Session::create(*Model::from_graph(graph), {.threads = 1});
  run_by_hand(c, session);

  for (int round = 0; round < 2; ++round) {
    const NamedArrays outputs = must(program.evaluate(c.parameters, c.data));
    const nn::Gradients found =
        must(program.evaluate_gradients(c.parameters, c.data, {{"loss", *ones({}, dtype)}}));
    for (const char* name : {"loss", "result"}) {
      expect_near(name, outputs[name], *session.output(name), tolerance);
      expect_near(name, found.outputs[name], *session.output(name), tolerance);
    }
    size_t used = 0;
    for (size_t i = 0; i < wrt.size(); ++i) {
      const std::string& name = c.random.parameters[i].first;
      if (found.parameters.find(name) == nullptr) continue;  // no output depends on it
      ++used;
      expect_near(name, found.parameters[name], *session.output(static_cast<int>(2 + i)),
                  10 * tolerance);
    }
    EXPECT_EQ(used, found.parameters.size());
    if (round == 0 && c.random.below(2) == 0) program.release_memory();
  }

  // A trainer's step with the rate 1 subtracts the gradient.
  if (dtype != f64 || c.rows == 0) return;
  Graph trained;
  std::map<std::string, Value> known;
  for (const auto& [name, width] : c.random.data_widths)
    known[name] = trained.input(name, dtype, {"n", width});
  for (const auto& [name, array] : c.parameters)
    known[name] = trained.parameter(name, *array.data());
  const auto find = [&](ValueId id, auto&& self) -> Value {
    const ValueInfo& info = forward.value_info(id);
    if (const auto found = known.find(info.name); found != known.end()) return found->second;
    Value made;
    if (info.state >= 0) {
      made = trained.constant(forward.states()[info.state].data);
    } else {
      const Node& node = forward.nodes()[info.node];
      std::vector<Value> inputs;
      for (const ValueId input : node.inputs)
        inputs.push_back(input == kNoValue ? Value() : self(input, self));
      NamedAttrs attrs;
      for (size_t i = 0; i < node.attrs.size(); ++i)
        attrs.push_back({node.op->signature.attributes[i].name, node.attrs[i]});
      made = trained.call(node.op->name(), inputs, attrs);
    }
    known[info.name] = made;
    return made;
  };
  trained.output("loss", find(forward.outputs()[0].second, find));
  ASSERT_TRUE(trained.status().ok()) << trained.status().message();
  TrainOptions train;
  train.losses = {{.kind = Loss::Kind::output, .output = "loss"}};
  train.optimizer = sgd(1);
  train.session.threads = 1;
  Result<Trainer> trainer = Trainer::create(*Model::from_graph(std::move(trained)), train);
  if (c.parameters.empty() || !trainer.ok()) return;  // no parameters to train
  std::vector<ConstTensor> inputs;
  for (const auto& [name, array] : c.data) inputs.push_back(array);
  if (!trainer->step(inputs, {}).ok()) return;  // the loss is not finite: nothing changes
  const nn::Gradients found =
      *program.evaluate_gradients(c.parameters, c.data, {{"loss", *ones({}, dtype)}});
  for (const std::string& name : trainer->trained()) {
    const Tensor after = *trainer->session().value(name);
    const Array before = c.parameters[name], gradient = found.parameters[name];
    ASSERT_TRUE(gradient) << name;
    for (int64_t i = 0; i < before.count(); ++i)
      ASSERT_NEAR(before.as<double>()[i] - after.as<double>()[i], gradient.as<double>()[i],
                  1e-10 * (1 + std::abs(before.as<double>()[i])))
          << name;
  }
}

TEST(NamedRandom, AreTheGraphByHand) {
  test::for_cases(150, [](uint64_t seed) {
    compare(seed, f64, 1e-12);
    if (seed % 3 == 0) compare(seed, f32, 1e-4);
  });
}

}  // namespace
}  // namespace hg
