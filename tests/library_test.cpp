// SPDX-License-Identifier: Apache-2.0
// Libraries of functions: several named graphs in one file.
#include "hg/library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "tests/compiled.h"
#include "tests/must.h"

namespace hg {
namespace {

Graph scaled_by(float factor, const TensorData& table) {
  Graph graph;
  const Value x = graph.input("x", f32, {"n"});
  const Value weight = graph.parameter("table", table);
  graph.output("y", x * factor + sum(weight));
  return graph;
}

std::vector<float> run(const Model& model, const std::vector<float>& x) {
  Session session = *Session::create(model);
  EXPECT_TRUE(session.set_input(0, view(x, {static_cast<int64_t>(x.size())})).ok());
  EXPECT_TRUE(session.run().ok());
  const Tensor y = *session.output(0);
  return {y.as<float>(), y.as<float>() + y.count()};
}

Library library() {
  const TensorData table = filled({100, 100}, 0.0001f);
  Library library;
  EXPECT_TRUE(library.add("double", scaled_by(2, table)).ok());
  EXPECT_TRUE(library.add("triple", scaled_by(3, table)).ok());
  return library;
}

TEST(Library, FunctionsAreCalledByName) {
  const std::vector<std::byte> bytes = *library().serialize();
  EXPECT_LT(bytes.size(), 50000u) << "the table of both is written once";
  for (const Library& one : {*Library::read(bytes), library()}) {
    EXPECT_EQ(one.functions(), (std::vector<std::string>{"double", "triple"}));
    EXPECT_NEAR(run(*one.function("double"), {1, 2})[1], 5, 1e-4);
    EXPECT_NEAR(run(*one.function("triple"), {1, 2, 3})[2], 10, 1e-4);
    const Result<Model> none = one.function("half");
    EXPECT_EQ(none.status().code(), Code::not_found);
    EXPECT_EQ(none.status().message(), "there is no entry 'half'; there are double, triple");
  }
  EXPECT_EQ(*Library::read(bytes)->serialize(), bytes);
  Library two = library();
  EXPECT_EQ(two.add("double", Graph()).message(), "there are two entries 'double'");
  EXPECT_EQ(two.add("", Graph()).message(), "an entry has no name");
}

TEST(Library, IsAModelWithEntriesAndAModelWithoutIsNoLibrary) {
  const Model entries = must(Model::read(*library().serialize()));
  EXPECT_EQ(entries.entries(), (std::vector<std::string>{"double", "triple"}));
  Graph graph;
  graph.output("y", relu(graph.input("x", f32, {"n"})));
  const std::vector<std::byte> model = *Model::from_graph(std::move(graph))->serialize();
  EXPECT_EQ(Library::read(model).status().message(),
            "the file is a model, which hg::Model reads, not a library of functions");
  EXPECT_FALSE(Library().serialize().ok());
}

TEST(Library, IsSavedAndLoaded) {
  const std::string path = testing::TempDir() + "library_test.hgm";
  ASSERT_TRUE(library().save(path).ok());
  const Library loaded = must(Library::load(path, Registry::built_in(), {.verify_weights = true}));
  EXPECT_NEAR(run(*loaded.function("triple"), {2})[0], 7, 1e-4);
  EXPECT_TRUE(Model::load(path).ok());
}

TEST(Library, OfUnknownOpsAndOfCutFilesAreRefused) {
  const std::vector<std::byte> bytes = *library().serialize();
  for (size_t size = 0; size < bytes.size(); size += 64)
    EXPECT_FALSE(Library::read(std::span(bytes).first(size)).ok()) << size;
  std::vector<std::byte> damaged = bytes;
  const std::string name = "double";
  const auto found = std::search(damaged.begin(), damaged.end(), name.begin(), name.end(),
                                 [](std::byte a, char b) { return a == std::byte(b); });
  ASSERT_NE(found, damaged.end());
  std::transform(name.begin(), name.end(), found, [](char) { return std::byte(0); });
  const std::string triple = "triple";
  std::transform(triple.begin(), triple.end(), found, [](char c) { return std::byte(c); });
  EXPECT_EQ(Library::read(damaged).status().message(), "there are two entries 'triple'");

  Registry registry;
  const OpDef alias = {.name = "acme.alias",
                       .signature = "acme.alias(x) -> y",
                       .expand = [](ExpandContext& c) -> Status {
                         c.set_out(0, c.in(0) * 1.0);
                         return {};
                       }};
  ASSERT_TRUE(registry.add(alias).ok());
  Graph graph(registry);
  graph.output("y", graph.call("acme.alias", {graph.input("x", f32, {2})}));
  Library functions;
  ASSERT_TRUE(functions.add("f", std::move(graph)).ok());
  const std::vector<std::byte> foreign = *functions.serialize();
  EXPECT_TRUE(Library::read(foreign, registry).ok());
  EXPECT_EQ(Library::read(foreign).status().message(),
            "the model uses ops that are not registered: acme.alias (1 node)");
}

}  // namespace
}  // namespace hg
