// SPDX-License-Identifier: Apache-2.0
// Fixture of tests on a Vulkan device. Without a device the tests are skipped, except in CI (with
// the variable CI set), where they fail.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/ops.h"
#include "tests/support/must.h"

namespace hg::test {

class Vulkan : public testing::Test {
 protected:
  void SetUp() override {
    const Result<std::vector<DeviceInfo>> devices = list_devices();
    if (!devices.ok()) {
      const std::string why(devices.status().message());
      if (std::getenv("CI") != nullptr) FAIL() << why;
      GTEST_SKIP() << why;
    }
    if (!shared_) {
      Gpu gpu = must(Gpu::open({.name = devices->front().name}));
      shared_ = gpu;
    }
    gpu_ = shared_;
  }

  SessionOptions options() const {
    SessionOptions options;
    options.device = Device::vulkan;
    options.gpu = gpu_;
    return options;
  }

  Result<Session> session(const Graph& graph, SessionOptions options) const {
    HG_TRY_ASSIGN(const Model model, Model::from_graph(graph));
    return Session::create(model, std::move(options));
  }

  // The first output of a graph in f32, on the CPU and on the device, and the device session's
  // report.
  struct Both {
    std::vector<float> cpu, device;
    std::string report;
  };
  Result<Both> run_both(const Graph& graph, const std::vector<ConstTensor>& inputs) const {
    Both both;
    for (const Device device : {Device::cpu, Device::vulkan}) {
      SessionOptions o = options();
      o.device = device;
      HG_TRY_ASSIGN(Session s, session(graph, o));
      for (size_t i = 0; i < inputs.size(); ++i)
        HG_TRY(s.set_input(static_cast<int>(i), inputs[i]));
      HG_TRY(s.run());
      HG_TRY_ASSIGN(const Tensor y, s.output(0));
      (device == Device::cpu ? both.cpu : both.device)
          .assign(y.as<float>(), y.as<float>() + y.count());
      if (device == Device::vulkan) both.report = s.report();
    }
    return both;
  }

  static void TearDownTestSuite() { shared_ = {}; }

  Gpu gpu_;
  static inline Gpu shared_;  // its kernels are compiled and tested once
};

// y = relu(x w + 1) for x: [4, 8], w: [8, 8]
inline Graph layer() {
  Graph g;
  const Value x = g.input("x", f32, {4, 8});
  Result<TensorData> w = TensorData::allocate(f32, {8, 8});
  for (int i = 0; i < 64; ++i) w->tensor.as<float>()[i] = static_cast<float>(i % 7) * 0.1f - 0.3f;
  g.output("y", relu(matmul(x, g.parameter("w", *w)) + 1.0));
  return g;
}

inline std::vector<float> numbers(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<float>(i)));
  return values;
}

}  // namespace hg::test
