// SPDX-License-Identifier: Apache-2.0
// When hg-convert treats outputs as equal, and how exact an output can be.
#include "converter/check/compare.h"

#include <gtest/gtest.h>

#include <vector>

#include "converter/check/precision.h"
#include "hg/hg.h"

namespace hg::convert {
namespace {

TEST(Compare, AnyStridesOfEitherSide) {
  const std::vector<float> plain = {1, 2, 3, 4, 5, 6}, turned = {1, 4, 2, 5, 3, 6};
  const Tensor a{const_cast<float*>(plain.data()), f32, {2, 3}, {3, 1}};
  const Tensor b{const_cast<float*>(turned.data()), f32, {2, 3}, {1, 2}};
  EXPECT_TRUE(compare(a, b).equal);
  EXPECT_TRUE(compare(b, a).equal);
  EXPECT_FALSE(compare(a, Tensor{b.data, f32, {2, 3}, {3, 1}}).equal);
}

// A sum of the same f32 numbers in another order.
TEST(Compare, WhatF32HasComputedIsNoMoreExactAsF64) {
  double got = -0.30906224250793457, want = -0.3090618848800659;
  const Tensor a{&got, f64, {}, {}}, b{&want, f64, {}, {}};
  EXPECT_FALSE(compare(a, b).equal);
  EXPECT_TRUE(compare(a, b, f32).equal);
  want = -0.32;
  EXPECT_FALSE(compare(a, b, f32).equal);
}

TEST(Precision, TheCoarsestThatAPartIsComputedIn) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 4}), y = g.input("y", f64, {"n", 4});
  g.output("given", cast(x, f64));
  g.output("view", cast(permute(x, {1, 0}), f64) * 2.0);
  g.output("exact", cast(x, f64) + y);
  g.output("sum", cast(sum(x, {0}), f64));
  g.output("both", cast(sum(x, {0}), f64) + sum(y, {0}));
  g.output("count", cast(cast(sum(x, {0}), bf16), i64));
  EXPECT_EQ(precisions_of_outputs(g), (std::vector<DType>{f64, f64, f64, f32, f32, bf16}));
}

TEST(Precision, ABodyCountsAsAWhole) {
  Graph g;
  const Value c = g.input("c", boolean, {}), y = g.input("y", f64, {4});
  const auto side = [](bool rounds) {
    auto body = std::make_shared<Graph>();
    const Value in = body->input("in", f64, {4});
    body->output("out", rounds ? cast(cast(in, f32), f64) : in + 1.0);
    return body;
  };
  const std::vector<Value> inputs = {c, y};
  g.output("exact", g.calls("if", inputs, {}, {side(false), side(false)})[0]);
  g.output("rounded", g.calls("if", inputs, {}, {side(false), side(true)})[0]);
  EXPECT_EQ(precisions_of_outputs(g), (std::vector<DType>{f64, f32}));
}

}  // namespace
}  // namespace hg::convert
