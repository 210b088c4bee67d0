// SPDX-License-Identifier: Apache-2.0
// Text kernels on a Vulkan device: the documented values, and the same as on the CPU.
#include "hg/expression.h"
#include "tests/support/must.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace hg::test {
namespace {

std::vector<float> floats(const TensorData& data) {
  const float* first = data.tensor.as<float>();
  return std::vector<float>(first, first + data.tensor.count());
}

TEST_F(Vulkan, PolynomialAndItsGradient) {
  const TextKernel polynomial = *kernel("polynomial", "a*x*x + b*x + c", {.session = options()});
  const std::vector<float> x = {1, 2, 3, 4};
  const TextKernel::Arguments arguments = {
      {"a", 2.0}, {"b", 8.0}, {"c", -1.0}, {"x", view(x, {4})}};
  const std::vector<TensorData> y = must(polynomial.call(arguments));
  EXPECT_EQ(floats(y[0]), (std::vector<float>{9, 23, 41, 63}));
  const std::vector<TensorData> dx = must(polynomial.grad(arguments, {"x"}));
  EXPECT_EQ(floats(dx[0]), (std::vector<float>{12, 16, 20, 24}));
}

TEST_F(Vulkan, ATextIsOneProgramOnTheDevice) {
  Graph graph;
  const Value x = graph.input("x", f32, {100}), w = graph.input("w", f32, {});
  const TextKernel wave =
      *kernel("wave", "let t = sin(w * x); x > 0 ? t * t + exp(-abs(x)) : clamp(t, -0.5, 0.5)");
  graph.output("y", wave.build(graph, {w, x})[0]);
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  std::vector<float> numbers;
  for (int i = 0; i < 100; ++i) numbers.push_back(0.05f * static_cast<float>(i - 50));
  const float three = 3;
  const Both both = must(run_both(graph, {view(numbers, {100}), view(&three, f32, {})}));
  for (size_t i = 0; i < 100; ++i) EXPECT_NEAR(both.device[i], both.cpu[i], 2e-6) << i;
  Session s = *session(graph, options());
  int on_device = 0;
  for (const Node& node : s.compiled_graph().nodes())
    on_device += node.op->name() == "pointwise_program";
  EXPECT_EQ(on_device, 1) << s.compiled_graph().text();
  EXPECT_EQ(s.compiled_graph().nodes().size(), 1u) << s.compiled_graph().text();
}

// The CPU computes indices and random numbers, which are 64-bit integers.
TEST_F(Vulkan, GeneratorsGiveTheSameNumbers) {
  const CallOptions shape = {.shape = {64}};
  for (const std::string text : {"rand(7) + id(0) * 0.5", "id() * 2.5"}) {
    const TextKernel cpu = *kernel("k", text), device = *kernel("k", text, {.session = options()});
    const Result<std::vector<TensorData>> a = cpu.call({}, shape), b = device.call({}, shape);
    ASSERT_TRUE(a.ok() && b.ok()) << b.status().message();
    EXPECT_EQ(floats((*a)[0]), floats((*b)[0])) << text;
  }
}

}  // namespace
}  // namespace hg::test
