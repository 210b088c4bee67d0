// SPDX-License-Identifier: Apache-2.0
// A few rows times a large constant weight, which is read in place instead of packed.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "hg/hg.h"
#include "tests/support/must.h"

namespace hg {
namespace {

TEST(LargeWeight, IsReadInPlaceByAFewRows) {
  constexpr int64_t kColumns = 29101, kDepth = 577;  // more than 2^24 elements
  std::mt19937 random(1);
  std::uniform_real_distribution<float> number(-1, 1);
  Graph graph;
  TensorData weight = must(TensorData::allocate(f32, {kColumns, kDepth}));
  float* const w = weight.tensor.as<float>();
  for (int64_t i = 0; i < kColumns * kDepth; ++i) w[i] = number(random);
  TensorData bias = must(TensorData::allocate(f32, {kColumns}));
  for (int64_t i = 0; i < kColumns; ++i) bias.tensor.as<float>()[i] = number(random);
  const Value x = graph.input("x", f32, {"m", kDepth});
  graph.output("y", relu(linear(x, graph.parameter("w", weight), graph.parameter("b", bias))));
  const Model model = must(Model::from_graph(std::move(graph)));
  std::vector<float> rows(9 * kDepth);
  for (float& each : rows) each = number(random);
  for (const int64_t m : {1, 4, 5, 6, 7, 8, 9}) {
    SCOPED_TRACE(m);
    Session session = must(Session::create(model, {.threads = 2}));
    ASSERT_TRUE(session.set_input("x", view(rows.data(), f32, {m, kDepth})).ok());
    ASSERT_TRUE(session.run().ok());
    const Tensor y = must(session.output("y"));
    ASSERT_EQ(y.shape, (Sizes{m, kColumns}));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = i; j < kColumns; j += 31) {
        double sum = bias.tensor.as<float>()[j];
        for (int64_t p = 0; p < kDepth; ++p)
          sum += double{rows[static_cast<size_t>(i * kDepth + p)]} * w[j * kDepth + p];
        ASSERT_NEAR(y.as<float>()[i * kColumns + j], std::fmax(sum, 0), 2e-4) << i << ", " << j;
      }
    if (m <= 8) {
      EXPECT_EQ(must(session.memory()).packed_bytes, 0);
    }
  }
}

}  // namespace
}  // namespace hg
