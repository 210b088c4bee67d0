// SPDX-License-Identifier: Apache-2.0
// A network with everything that sessions share: convolutions with folded norms, products with
// packed weights, and a loop that contains a product; `seed` is that of "w". Also inputs for it.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "hg/hg.h"
#include "tests/support/must.h"

namespace hg {

constexpr int64_t kNetworkChannels = 8, kNetworkSize = 12;  // x: [n, channels, size, size]

inline Model shared_network(const Dim& n, uint64_t seed = 2) {
  using Values = std::vector<Value>;
  Graph g;
  const Value x = g.input("x", f32, {n, kNetworkChannels, kNetworkSize, kNetworkSize});
  const auto channels = [&](const char* name, double low) {
    return g.parameter(name, f32, {16}, init::uniform(low, 1, 7));
  };
  Value y =
      conv(x, g.parameter("conv", f32, {16, kNetworkChannels, 3, 3}, init::kaiming_uniform(1)));
  y = relu(
      batch_norm(y, channels("g", 0.5), channels("b", -1), channels("m", -1), channels("v", 0.5))
          .y);
  y = linear(mean(y, {2, 3}), g.parameter("w", f32, {64, 16}, init::uniform(-1, 1, seed)));
  y = while_loop(
          {y, g.scalar(int64_t{0}, i64)}, {},
          [](Graph& b, std::span<const Value> v) {
            return Values{lt(v[1], b.scalar(int64_t{3}, i64))};
          },
          [](Graph& b, std::span<const Value> v) {
            const Value w = b.parameter("inner", f32, {64, 64}, init::uniform(-0.1, 0.1, 5));
            return Values{tanh(linear(v[0], w)), v[1] + 1};
          })
          .at(0);
  g.output("y", y);
  return must(Model::from_graph(std::move(g)));
}

// Inputs of n samples, different for each seed.
inline std::vector<float> network_input(int64_t n, int seed) {
  std::vector<float> x(n * kNetworkChannels * kNetworkSize * kNetworkSize);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>((i * 37 + size_t{101} * seed) % 97) / 48 - 1;
  return x;
}

}  // namespace hg
