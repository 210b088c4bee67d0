// SPDX-License-Identifier: Apache-2.0
// Compares graphs in tests of passes: the text of the graph that a session compiled.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "hg/hg.h"
#include "tests/support/must.h"

namespace hg {

// The nodes of the graph that a session compiles from `graph`, without inputs and states.
inline std::string compiled(Graph graph, SessionOptions options = {}) {
  const Model model = must(Model::from_graph(std::move(graph)));
  Result<Session> session = Session::create(model, std::move(options));
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return "";
  const std::string all = session->compiled_graph().text();
  std::string nodes;
  for (size_t at = 0; at < all.size();) {
    const size_t end = all.find('\n', at);
    const std::string line = all.substr(at, end - at);
    if (line.find(" = ") != std::string::npos && line.find("return") == std::string::npos)
      nodes += line + "\n";
    at = end + 1;
  }
  return nodes;
}

// An f32 tensor of one value.
inline TensorData filled(const Sizes& shape, float value) {
  TensorData data = *TensorData::allocate(f32, shape);
  for (int64_t i = 0; i < data.tensor.count(); ++i) data.tensor.as<float>()[i] = value;
  return data;
}

inline Value scaled(const Value& x, double factor) {
  return x.graph()->call("mul", {x, x.graph()->scalar(factor)});
}
inline Value plus(const Value& x, double summand) {
  return x.graph()->call("add", {x.graph()->scalar(summand), x});
}

}  // namespace hg
