// SPDX-License-Identifier: Apache-2.0
// A small model, numbers for it, and the expected error messages, for session tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>
#include <vector>

#include "hg/model.h"
#include "hg/session.h"
#include "tests/support/must.h"

namespace hg::test {

// y = relu(linear(x, w1) + x), z = sum(y * 2) over the last dim
inline Model small_model() {
  Graph g;
  const Value x = g.input("x", f32, {"n", 16});
  const Value w = g.parameter("w", f32, {16, 16}, init::uniform(-1, 1, 3));
  const Value y = g.call("relu", {g.call("add", {g.call("linear", {x, w}), x})});
  const Value doubled = g.call("mul", {y, g.scalar(2.0)});
  g.output("y", y);
  g.output("z", g.call("sum", {doubled}, {{"dim", {-1}}}));
  EXPECT_TRUE(g.status().ok()) << g.status().message();
  return must(Model::from_graph(std::move(g)));
}

inline std::vector<float> ramp(int64_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) * 0.37f);
  return values;
}

inline std::vector<float> copy_of(const Tensor& tensor) {
  std::vector<float> values(tensor.count());
  copy_elements(tensor, view(values, tensor.shape));
  return values;
}

inline void expect_message(const Status& status, Code code, std::string_view part) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(status.message().find(part), std::string_view::npos) << status.message();
}

}  // namespace hg::test
