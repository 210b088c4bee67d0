// SPDX-License-Identifier: Apache-2.0
// Elementwise programs on a device: the CPU's results, and SPIR-V that the validator accepts.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <set>

#include "hg/pointwise_program.h"
#include "lib/device/backend.h"
#include "lib/run/self_test.h"
#include "lib/vulkan/device.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace hg::test {
namespace {

class VulkanProgram : public Vulkan {
 protected:
  // Compares the results of CPU and device for inputs of these shapes.
  void compare(const std::string& program, DType dtype, const std::vector<Sizes>& shapes,
               double tolerance) {
    Graph g;
    std::vector<Value> xs;
    for (const Sizes& shape : shapes)
      xs.push_back(g.input(str_cat("x", int64_t(xs.size())), dtype, to_shape(shape)));
    const Value y = g.call("pointwise_program", xs, {{"program", program}});
    g.output("y", cast(y, f32));
    std::vector<TensorData> data;
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const std::vector<float> values = numbers(shapes[i].count() + 3);
      data.push_back(*TensorData::allocate(dtype, shapes[i]));
      inputs.push_back(data.back().tensor);
      for (int64_t k = 0; k < shapes[i].count(); ++k) {
        const float v = values[i + k];
        if (dtype == f16)
          inputs.back().as<Half>()[k] = Half(v);
        else if (dtype == bf16)
          inputs.back().as<BFloat16>()[k] = BFloat16(v);
        else
          inputs.back().as<float>()[k] = v;
      }
    }
    const Both both = must(run_both(g, {inputs.begin(), inputs.end()}));
    EXPECT_EQ(both.report.find("runs on the CPU"), std::string::npos) << both.report;
    ASSERT_EQ(both.cpu.size(), both.device.size());
    for (size_t i = 0; i < both.cpu.size(); ++i)
      EXPECT_NEAR(both.device[i], both.cpu[i], tolerance * (1 + std::abs(both.cpu[i])))
          << program << " " << to_string(dtype) << " " << i;
  }
};

TEST_F(VulkanProgram, GivesTheAnswersOfTheCpu) {
  const std::string written =
      "mul x0 x1; exp s0; leaky_relu s1 negative_slope=0.2; add s2 x2; sub s3 x0";
  const std::string compares = "gt x0 x1; where s0 x0 x2; clamp s1 - x1; tanh s2";
  for (const auto& [dtype, tolerance] :
       {std::pair(f32, 1e-5), std::pair(f16, 2e-3), std::pair(bf16, 2e-2)})
    for (const std::string& program : {written, compares}) {
      compare(program, dtype, {{5, 33}, {5, 33}, {5, 33}}, tolerance);
      compare(program, dtype, {{2, 5, 33}, {33}, {2, 1, 1}}, tolerance);
      compare(program, dtype, {{1}, {7, 3}, {1, 1}}, tolerance);
    }
}

// 16-bit results between the ops are rounded as on the CPU: adding half an ulp to 1 repeatedly
// never changes it.
TEST_F(VulkanProgram, RoundsBetweenItsOps) {
  for (const DType dtype : {f16, bf16}) {
    Graph g;
    const Value x = g.input("x", dtype, {4}), small = g.input("small", dtype, {4});
    g.output("y", g.call("pointwise_program", {x, small},
                         {{"program", "add x0 x1; add s0 x1; add s1 x1; add s2 x1"}}));
    Session s = must(session(g, options()));
    const double step = dtype == f16 ? 0x1p-11 : 0x1p-8;
    TensorData ones = *TensorData::allocate(dtype, {4}), smalls = *TensorData::allocate(dtype, {4});
    for (int i = 0; i < 4; ++i) {
      const auto put = [&](TensorData& to, double v) {
        if (dtype == f16)
          to.tensor.as<Half>()[i] = Half(static_cast<float>(v));
        else
          to.tensor.as<BFloat16>()[i] = BFloat16(static_cast<float>(v));
      };
      put(ones, 1);
      put(smalls, step);
    }
    ASSERT_TRUE(s.set_input(0, ones.tensor).ok() && s.set_input(1, smalls.tensor).ok());
    ASSERT_TRUE(s.run().ok());
    EXPECT_EQ(std::memcmp(s.output(0)->data, ones.tensor.data, 8), 0);
  }
}

TEST_F(VulkanProgram, AChainIsOneDispatch) {
  Graph g;
  const Value x = g.input("x", f32, {64, 64}), b = g.input("b", f32, {64});
  g.output("y", tanh((x + b) * 0.5 + 1.0) * x);
  const std::vector<float> xs = numbers(64 * 64), bs = numbers(64);
  int64_t dispatches[2] = {0, 0};
  for (const bool joined : {false, true}) {
    SessionOptions o = options();
    if (!joined) o.disabled_passes = {"programs"};
    Session s = must(session(g, o));
    ASSERT_TRUE(s.set_input("x", view(xs, {64, 64})).ok() && s.set_input("b", view(bs, {64})).ok());
    const int64_t before = gpu_.counters().dispatches;
    ASSERT_TRUE(s.run().ok());
    dispatches[joined] = gpu_.counters().dispatches - before;
    for (size_t i = 0; i < xs.size(); ++i)
      ASSERT_NEAR(s.output(0)->as<float>()[i], std::tanh((xs[i] + bs[i % 64]) * 0.5f + 1) * xs[i],
                  1e-5);
  }
  EXPECT_EQ(dispatches[0], 5);
  EXPECT_EQ(dispatches[1], 1);
}

// Elementwise graphs of more inputs and steps than a program of the device has, whose values have
// one reader or several.
TEST_F(VulkanProgram, RandomGraphsOfManyInputs) {
  for_cases(40, [&](uint64_t number) {
    Chance random(number);
    Graph g;
    std::vector<Value> values;
    std::vector<std::vector<float>> numbers_of;
    std::vector<ConstTensor> inputs;
    const Sizes shapes[] = {{3, 35}, {35}, {1, 1}, {3, 1}};
    const auto count = static_cast<int>(2 + random.below(24));
    numbers_of.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      const Sizes shape = shapes[i == 0 || random.chance(50) ? 0 : random.below(4)];
      values.push_back(g.input(str_cat("x", int64_t(i)), f32, to_shape(shape)));
      std::vector<float> x = numbers(shape.count() + i);
      x.erase(x.begin(), x.begin() + i);
      numbers_of.push_back(std::move(x));
      inputs.push_back(view(numbers_of.back(), shape));
    }
    Value y = values[0];
    for (int i = 1; i < count; ++i) {
      const char* const ops[] = {"add", "sub", "mul", "maximum", "minimum"};
      const Value& other = random.chance(20) ? values.back() : values[static_cast<size_t>(i)];
      y = g.call(ops[random.below(5)], {y, other});
      if (random.chance(20)) y = g.call("tanh", {y});
      if (random.chance(20)) values.push_back(y);
    }
    g.output("y", y);
    const Both both = must(run_both(g, inputs));
    EXPECT_EQ(both.report.find("runs on the CPU"), std::string::npos) << both.report;
    ASSERT_EQ(both.cpu.size(), both.device.size());
    for (size_t i = 0; i < both.cpu.size(); ++i)
      ASSERT_NEAR(both.device[i], both.cpu[i], 1e-5 * (1 + std::abs(both.cpu[i]))) << number;
  });
}

// A program is not trusted if one of its ops is not.
TEST_F(VulkanProgram, FailsWithItsOps) {
  Gpu broken = must(Gpu::open({.name = gpu_.info().name}));
  backend_of(broken).records().fails_self_test.insert("tanh=pointwise");
  Graph g;
  const Value x = g.input("x", f32, {64});
  g.output("y", tanh(x * 0.5) * x);
  SessionOptions o = options();
  o.gpu = broken;
  const Session s = must(session(g, o));
  EXPECT_NE(s.report().find("pointwise_program=pointwise fails its self-test"), std::string::npos)
      << s.report();
}

std::set<std::vector<uint32_t>> modules;
PFN_vkCreateShaderModule create_module = nullptr;
VkResult VKAPI_PTR note_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                               const VkAllocationCallbacks* allocator, VkShaderModule* module) {
  modules.insert({info->pCode, info->pCode + info->codeSize / 4});
  return create_module(device, info, allocator, module);
}

// Every kernel's self-test creates its modules, including programs with several types.
TEST_F(VulkanProgram, WhatIsWrittenIsValid) {
  if (std::system("spirv-val --version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "spirv-val is not installed";
  const Gpu fresh = must(Gpu::open({.name = gpu_.info().name}));
  auto& functions = const_cast<vulkan::DeviceFunctions&>(
      static_cast<const vulkan::Device&>(backend_of(fresh)).vk());
  create_module = std::exchange(functions.CreateShaderModule, &note_module);
  const Registry& registry = Registry::built_in();
  for (const Op* op : registry.ops()) {
    if (registry.kernels(op->name(), Device::vulkan).empty()) continue;
    for (const DType dtype : {f32, f16, bf16, i64}) {
      for (const Graph& g : self_test_cases(*op, dtype, registry)) {
        SessionOptions o = options();
        o.gpu = fresh;
        o.kernels = {"grouped_mm=loops"};  // in no graph here; so kernels are not tested first
        const Result<Session> s = session(g, o);
        EXPECT_TRUE(s.ok()) << op->name() << ": " << s.status().message();
      }
    }
  }
  EXPECT_GT(modules.size(), 150u);
  const std::string file = str_cat(testing::TempDir(), "program-", int64_t(getpid()), ".spv");
  const std::string command = "spirv-val --target-env vulkan1.1 " + file;
  for (const std::vector<uint32_t>& words : modules) {
    std::FILE* const out = std::fopen(file.c_str(), "wb");
    ASSERT_NE(out, nullptr);
    std::fwrite(words.data(), 4, words.size(), out);
    std::fclose(out);
    EXPECT_EQ(std::system(command.c_str()), 0) << words.size() << " words";
  }
  std::remove(file.c_str());
}

}  // namespace
}  // namespace hg::test
