// SPDX-License-Identifier: Apache-2.0
// What a build with few dtypes (HG_OPS) rejects by name, because its kernels would silently skip
// elements of other dtypes. For this program, CMakeLists.txt compiles lib/compile/compile.cpp as in
// such a build, from files/few.needs.in.
#include <gtest/gtest.h>

#include <memory>

#include "hg/hg.h"
#include "tests/support/small_model.h"

namespace hg {
namespace {

using test::expect_message;
using test::small_model;

Status created(Graph graph, const SessionOptions& options = {}) {
  HG_TRY_ASSIGN(const Model model, Model::from_graph(std::move(graph)));
  HG_TRY_ASSIGN(Session session, Session::create(model, options));
  return session.plan({});
}

constexpr DType kLacking[] = {f64, f16, bf16, i32, i16, i8, u8};

std::string lacks(DType dtype, std::string_view of) {
  return str_cat("this build lacks the dtype ", to_string(dtype), " of the ", of,
                 " (HG_OPS was made from few.needs)");
}

TEST(ChosenTest, WhatItHoldsRuns) { EXPECT_TRUE(Session::create(small_model()).ok()); }

TEST(ChosenTest, InputsOfOtherDTypesAreRefused) {
  for (const DType dtype : kLacking) {
    Graph g;
    g.output("y", g.call("cast", {g.input("x", dtype, {"n"})}, {{"dtype", f32}}));
    expect_message(created(std::move(g)), Code::unsupported, lacks(dtype, "input 'x'"));
  }
}

// A weight stored in fewer bits, or a table, with a cast at its use.
TEST(ChosenTest, StatesOfOtherDTypesAreRefused) {
  for (const DType dtype : kLacking) {
    Graph g;
    const Value w = g.buffer("w", *TensorData::allocate(dtype, {4}));
    const Value wide = g.call("cast", {w}, {{"dtype", f32}});
    g.output("y", g.call("add", {g.input("x", f32, {"n", 4}), wide}));
    expect_message(created(std::move(g)), Code::unsupported, lacks(dtype, "state 'w'"));
  }
}

TEST(ChosenTest, WhatNodesMakeInOtherDTypesIsRefused) {
  for (const DType dtype : kLacking) {
    Graph g;
    const Value wide = g.call("cast", {g.input("x", f32, {"n"})}, {{"dtype", dtype}});
    g.output("y", g.call("cast", {wide}, {{"dtype", f32}}));
    expect_message(created(std::move(g)), Code::unsupported,
                   str_cat("this build lacks the dtype ", to_string(dtype), " of cast"));
  }
}

TEST(ChosenTest, BodiesOfControlFlowAreRefusedToo) {
  Graph g;
  const auto body = [] {
    auto graph = std::make_shared<Graph>();
    const Value w = graph->constant(*TensorData::allocate(f16, {}), "w");
    const Value wide = graph->call("cast", {w}, {{"dtype", f32}});
    graph->output("", graph->call("add", {graph->input("", f32, {4}), wide}));
    return graph;
  };
  const Value x = g.input("x", f32, {4});
  const Value some = g.call("gt", {g.call("sum", {x}), g.scalar(0.0)});
  g.output("y", g.calls("if", std::vector<Value>{some, x}, {}, {body(), body()})[0]);
  expect_message(created(std::move(g)), Code::unsupported, lacks(f16, "state 'w'"));
}

TEST(ChosenTest, WeightsOf16BitsAreRefused) {
  SessionOptions options;
  options.precision = Precision::bf16;
  expect_message(Session::create(small_model(), options).status(), Code::unsupported,
                 "this build lacks the dtype bf16 of Precision::bf16");
}

}  // namespace
}  // namespace hg
