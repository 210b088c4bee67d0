// SPDX-License-Identifier: Apache-2.0
// What models need from the library, from the file to a plan.
#include "hg/needs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "hg/hg.h"
#include "hg/kernel.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/must.h"
#include "tests/support/small_model.h"

namespace hg {
namespace {

using test::expect_message;
using test::small_model;

class NeedsTest : public testing::Test {
 protected:
  // The name of the test keeps its file apart from those of other tests, which may run beside it.
  std::string path_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + ".hgm";
  ~NeedsTest() override { std::filesystem::remove(path_); }

  Result<Needs> needs(const Model& model,
                      const std::vector<std::pair<std::string, int64_t>>& dims = {}) {
    EXPECT_TRUE(model.save(path_).ok());
    return needs_of(path_, dims);
  }
};

TEST_F(NeedsTest, HoldOpsOfTheFileOfPassesAndOfPlans) {
  const Needs found = must(needs(small_model()));
  // The residual is fused into the product; elementwise ops with numbers become a program.
  for (const char* op : {"linear", "add", "relu", "mul", "sum", "contiguous"})
    EXPECT_TRUE(found.ops.contains(op)) << op;
  EXPECT_FALSE(found.ops.contains("conv"));
  EXPECT_EQ(found.dtypes, std::set<DType>{f32});
  bool has_product = false;
  for (const auto& [kernel, sets] : found.kernels) {
    EXPECT_TRUE(found.ops.contains(kernel.first)) << kernel.first;
    EXPECT_FALSE(sets.empty()) << kernel.second;
    has_product |= kernel.first == "linear";
  }
  EXPECT_TRUE(has_product);
}

TEST_F(NeedsTest, HoldEveryOpOfTheCompiledGraph) {
  const Model model = small_model();
  const Needs found = must(needs(model));
  for (const bool passes : {true, false}) {
    SessionOptions options;
    if (!passes) options.disabled_passes = {"*"};
    const Session session = must(Session::create(model, options));
    for (const Node& node : session.compiled_graph().nodes())
      EXPECT_TRUE(found.ops.contains(std::string(node.op->name()))) << node.op->name();
  }
}

// The tiles of AVX2 and AVX-512 are wider than a row of this image; other tiles are not.
TEST_F(NeedsTest, SayWhichInstructionSetsTakeAKernel) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 8, 4, 4});
  const Value w = g.buffer("w", *TensorData::allocate(f32, {16, 8, 3, 3}));
  g.output("y", g.call("conv", {x, w}, {{"padding", std::vector<Dim>{1, 1}}}));
  const Needs found = must(needs(*Model::from_graph(std::move(g))));
  std::set<std::string> sets, wide;
  for (const Isa isa : kIsas) {
    if (!supports(isa)) continue;
    sets.emplace(to_string(isa));
    if (isa >= Isa::avx2) wide.emplace(to_string(isa));
  }
  const auto columns = found.kernels.find({"conv", "columns"});
  EXPECT_EQ(columns == found.kernels.end() ? std::set<std::string>() : columns->second, wide);
  std::set<std::string> all;
  for (const auto& [kernel, taken] : found.kernels)
    if (kernel.first == "conv") all.insert(taken.begin(), taken.end());
  EXPECT_EQ(all, sets);
  EXPECT_EQ(chosen_isa(), processor_isa());
}

// linear and conv may contain an activation without a node of its op.
TEST_F(NeedsTest, HoldTheOpOfAFusedActivation) {
  Graph g;
  const Value w = g.buffer("w", *TensorData::allocate(f32, {3, 4}));
  g.output("y", g.call("linear", {g.input("x", f32, {"n", 4}), w}, {{"activation", "gelu_tanh"}}));
  const Needs found = must(needs(*Model::from_graph(std::move(g))));
  EXPECT_TRUE(found.ops.contains("gelu"));
}

TEST_F(NeedsTest, HoldWhatTypesAndConstantsAreMadeOf) {
  Graph g;
  const Value x = g.input("x", f64, {"n", 4});
  // The ops of a folded constant run while a session is created.
  const Value constant = g.call("exp", {g.scalar(0.5, f64)});
  g.output("y", g.call("cast", {g.call("mul", {x, constant})}, {{"dtype", i32}}));
  const Needs found = must(needs(*Model::from_graph(std::move(g))));
  for (const char* op : {"exp", "mul", "cast"}) EXPECT_TRUE(found.ops.contains(op)) << op;
  EXPECT_EQ(found.dtypes, (std::set<DType>{f64, i32}));
}

// A library for some models keeps these kernels, so that it also runs on processors with other
// instruction sets and at other sizes. It has no gradients.
TEST_F(NeedsTest, OfEachOpOneKernelTakesEverything) {
  for (const Op* op : Registry::built_in().ops()) {
    const auto kernels = Registry::built_in().kernels(op->name(), Device::cpu);
    if (kernels.empty() || op->name().ends_with("_grad")) continue;
    EXPECT_TRUE(std::any_of(kernels.begin(), kernels.end(), [](const KernelDef* kernel) {
      return kernel->accepts == nullptr;
    })) << op->name();
  }
}

TEST_F(NeedsTest, AreThoseOfAllEntries) {
  Model model;
  for (const char* op : {"sin", "cos"}) {
    Graph g;
    g.output("y", g.call(op, {g.input("x", f32, {"n"})}));
    ASSERT_TRUE(model.add_entry(op, std::move(g)).ok());
  }
  ASSERT_TRUE(model.save(path_).ok());
  const Needs found = must(needs_of(path_));
  EXPECT_TRUE(found.ops.contains("sin") && found.ops.contains("cos"));
}

TEST_F(NeedsTest, OfAnEmptyGraphAreWhatInputsTake) {
  Graph g;
  g.output("y", g.input("x", f32, {0}));
  const Needs found = must(needs(*Model::from_graph(std::move(g))));
  EXPECT_EQ(found.ops, std::set<std::string>{"contiguous"});
}

TEST_F(NeedsTest, SizesThatDoNotFitAndFilesThatAreNoneAreRefused) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4});
  g.output("y", g.call("reshape", {x}, {{"shape", std::vector<Dim>{3, -1}}}));
  const Result<Model> model = Model::from_graph(std::move(g));
  if (model.ok()) {
    EXPECT_FALSE(needs(*model).ok());
    EXPECT_TRUE(needs(*model, {{"n", 6}}).ok());
  }
  expect_message(needs_of("/none.hgm").status(), Code::not_found, "/none.hgm");
}

}  // namespace
}  // namespace hg
