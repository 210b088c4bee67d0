// SPDX-License-Identifier: Apache-2.0
// Programs of named models on a Vulkan device: the same results and gradients as on the CPU.
#include "hg/create.h"
#include "hg/named.h"
#include "tests/support/must.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace hg::test {
namespace {

class VulkanNamed : public Vulkan {};

std::vector<float> floats_of(const Array& array) {
  EXPECT_TRUE(array);
  const Array dense = *Array::copy_of(array);
  return std::vector<float>(dense.as<float>(), dense.as<float>() + dense.count());
}

void expect_near(const NamedArrays& a, const NamedArrays& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<float> left = floats_of(a[i].second), right = floats_of(b[i].second);
    ASSERT_EQ(left.size(), right.size());
    for (size_t k = 0; k < left.size(); ++k)
      ASSERT_NEAR(left[k], right[k], 1e-4 * (1 + std::abs(right[k]))) << a[i].first;
  }
}

TEST_F(VulkanNamed, AnswersAsTheCpuDoes) {
  const nn::Group model = {
      nn::Input("x", {"n", 3, 8, 8}),      nn::Conv2d(8, 3, {.padding = 1}).named("conv"),
      nn::BatchNorm2d().named("norm"),     nn::ReLU().output("hidden"),
      nn::Call("mean", {{"dim", {2, 3}}}), nn::Linear(5).output("scores"),
      nn::Softmax(1).output("classes")};
  for (const bool training : {false, true}) {
    int64_t live = 0, arenas = 0;
    nn::CompileOptions options;
    options.training = training;
    options.session.threads = 1;
    nn::Program cpu = *nn::compile(model, options);
    options.session = this->options();
    options.on_arena = [&](const nn::ArenaEvent& event) {
      live += event.is_free ? -event.bytes : event.bytes;
      arenas += !event.is_free;
    };
    nn::Program device = *nn::compile(model, options);
    EXPECT_TRUE(device.session().gpu());
    const NamedArrays parameters = *cpu.initial_parameters(1);
    const NamedArrays seed = {{"classes", *randn({2, 5}, 2)}};
    for (const int64_t round : {1, 2}) {
      const NamedArrays data = {{"x", *randn({2, 3, 8, 8}, static_cast<uint64_t>(round))}};
      expect_near(*device.evaluate(parameters, data), *cpu.evaluate(parameters, data));
      const nn::Gradients a = must(device.evaluate_gradients(parameters, data, seed));
      expect_near(a.parameters, cpu.evaluate_gradients(parameters, data, seed)->parameters);
      if (training)
        expect_near({{"mean", *device.state("norm.running_mean")}},
                    {{"mean", *cpu.state("norm.running_mean")}});
      EXPECT_GT(live, 0);
      const int64_t before = arenas;
      device.release_memory();
      EXPECT_EQ(live, 0);
      EXPECT_GT(before, 0);
    }
    float most = 0;
    ASSERT_TRUE(
        device
            .add_hook("hidden",
                      [&](const nn::Intermediate& seen) { most = static_cast<float>(seen.max); })
            .ok());
    ASSERT_TRUE(device.begin(parameters, {{"x", *ones({1, 3, 8, 8})}}).ok());
    int steps = 0;
    while (device.step()->has_value()) ++steps;
    ASSERT_TRUE(device.finish().ok());
    EXPECT_GT(steps, 0);
    EXPECT_GT(most, 0);
  }
}

}  // namespace
}  // namespace hg::test
