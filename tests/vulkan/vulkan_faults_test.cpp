// SPDX-License-Identifier: Apache-2.0
// Vulkan failures: every call that can fail is made to fail, one after another. Calls are counted
// in the device's function table. Below it, the validation layers detect leaks.
#include <atomic>
#include <thread>

#include "lib/device/backend.h"
#include "lib/vulkan/device.h"
#include "tests/support/must.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace hg::test {
namespace {

// The n-th call from now on that returns a VkResult returns `result`; a lost device stays lost.
struct Fault {
  std::atomic<int> calls_left{-1};  // negative: none fails
  VkResult result = VK_SUCCESS;
  std::atomic<bool> happened{false};

  bool now() {
    if (happened && result == VK_ERROR_DEVICE_LOST) return true;
    if (calls_left < 0 || calls_left-- != 0) return false;
    happened = true;
    return true;
  }
  void arm(int call, VkResult what) {
    result = what;
    happened = false;
    calls_left = call;
  }
};
Fault fault;

// Functions that must run even if they report failure, because they change the driver's objects.
template <int kFunction>
constexpr bool kDoneAnyway = false;

template <int kFunction, class F>
struct Hook;
template <int kFunction, class R, class... Args>
struct Hook<kFunction, R(VKAPI_PTR*)(Args...)> {
  static inline R(VKAPI_PTR* real)(Args...) = nullptr;
  static R VKAPI_PTR call(Args... args) {
    if constexpr (std::is_same_v<R, VkResult>) {
      if (fault.now()) {
        if (kDoneAnyway<kFunction>) real(args...);
        return fault.result;
      }
    }
    return real(args...);
  }
};

enum Function {
#define HG_NUMBER(name) k##name,
  HG_VK_DEVICE_FUNCTIONS(HG_NUMBER)
#undef HG_NUMBER
};
template <>
constexpr bool kDoneAnyway<kWaitForFences> = true;
template <>
constexpr bool kDoneAnyway<kDeviceWaitIdle> = true;
template <>
constexpr bool kDoneAnyway<kEndCommandBuffer> = true;

void hook(vulkan::DeviceFunctions& functions) {
#define HG_HOOK(name)                                        \
  if (functions.name != Hook<k##name, PFN_vk##name>::call) { \
    Hook<k##name, PFN_vk##name>::real = functions.name;      \
    functions.name = Hook<k##name, PFN_vk##name>::call;      \
  }
  HG_VK_DEVICE_FUNCTIONS(HG_HOOK)
#undef HG_HOOK
}

void hook(const Gpu& gpu) {
  hook(const_cast<vulkan::DeviceFunctions&>(
      static_cast<const vulkan::Device&>(backend_of(gpu)).vk()));
}

class VulkanFaults : public Vulkan {
 protected:
  void SetUp() override {
    Vulkan::SetUp();
    if (!gpu_) return;
    // A device of its own; the cache avoids repeating measurements and tests.
    const std::vector<std::byte> cache = must(gpu_.cache());
    cache_ = cache;
  }
  void TearDown() override { fault.arm(-1, VK_SUCCESS); }

  Gpu open() const { return must(Gpu::open({.name = gpu_.info().name, .cache = cache_})); }

  // Creates a session, runs it, and reads its output.
  static Status work(const Gpu& gpu, const Graph& graph, std::vector<float>* y) {
    SessionOptions options;
    options.device = Device::vulkan;
    options.gpu = gpu;
    HG_TRY_ASSIGN(const Model model, Model::from_graph(graph));
    HG_TRY_ASSIGN(Session s, Session::create(model, options));
    return run(s, y);
  }
  static Status run(Session& s, std::vector<float>* y) {
    const std::vector<float> x = numbers(32);
    HG_TRY(s.set_input("x", view(x, {4, 8})));
    HG_TRY(s.run());
    HG_TRY_ASSIGN(const Tensor out, s.output(0));
    y->assign(out.as<float>(), out.as<float>() + out.count());
    return {};
  }

  std::vector<std::byte> cache_;
};

// A part on the device, one on the CPU, and a state: uploads, downloads and copies.
Graph mixed() {
  Graph g;
  const Value x = g.input("x", f32, {4, 8});
  const Value sum = g.buffer("sum", *TensorData::allocate(f32, {4, 8}));
  const Value w = g.parameter("w", f32, {8, 8}, init::uniform(-1, 1, 1));
  const Value y = g.call("lgamma", {exp(matmul(x, w))}) + sum;
  g.assign(sum, y);
  g.output("y", y * 2.0);
  return g;
}

Code code_of(VkResult result) {
  return result == VK_ERROR_DEVICE_LOST ? Code::device_lost : Code::out_of_memory;
}

TEST_F(VulkanFaults, EveryCallOfASessionMayFail) {
  std::vector<float> expected;
  ASSERT_TRUE(work(gpu_, mixed(), &expected).ok());
  for (const VkResult result : {VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_DEVICE_LOST}) {
    // Each loss needs a new device, so only every fifth call is tested.
    const bool is_lost = result == VK_ERROR_DEVICE_LOST;
    Gpu gpu;
    int failures = 0;
    for (int call = 0;; call += is_lost ? 5 : 1) {
      if (!gpu) gpu = open(), hook(gpu);
      std::vector<float> y;
      fault.arm(call, result);
      const Status status = work(gpu, mixed(), &y);
      const bool happened = fault.happened;
      if (!happened) {
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(y, expected);
        break;
      }
      EXPECT_EQ(status.code(), code_of(result)) << call << ": " << status.message();
      EXPECT_NE(status.message().find("vk"), std::string_view::npos) << status.message();
      ++failures;
      if (is_lost) {
        // The device stays lost: the next session reports it too.
        EXPECT_EQ(work(gpu, mixed(), &y).code(), Code::device_lost);
        fault.arm(-1, VK_SUCCESS);
        gpu = {};
        continue;
      }
      fault.arm(-1, VK_SUCCESS);
      const Status again = work(gpu, mixed(), &y);
      EXPECT_TRUE(again.ok()) << call << ": " << again.message();
      EXPECT_EQ(y, expected) << call;
    }
    EXPECT_GT(failures, is_lost ? 8 : 40);
  }
}

TEST_F(VulkanFaults, EveryCallOfARunMayFail) {
  const Gpu gpu = open();
  hook(gpu);
  SessionOptions options;
  options.device = Device::vulkan;
  options.gpu = gpu;
  Session s = must(session(layer(), options));
  std::vector<float> expected, y;
  ASSERT_TRUE(run(s, &expected).ok());
  int failures = 0;
  for (int call = 0;; ++call) {
    fault.arm(call, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    const Status status = run(s, &y);
    if (!fault.happened) break;
    ++failures;
    EXPECT_EQ(status.code(), Code::out_of_memory) << status.message();
    EXPECT_FALSE(s.output(0).ok()) << "of a run that failed";
    fault.arm(-1, VK_SUCCESS);
    ASSERT_TRUE(run(s, &y).ok());
    EXPECT_EQ(y, expected);
  }
  EXPECT_GE(failures, 2);
  // The device is lost in the middle of a run.
  fault.arm(1, VK_ERROR_DEVICE_LOST);
  EXPECT_EQ(run(s, &y).code(), Code::device_lost);
  fault.arm(-1, VK_SUCCESS);
  EXPECT_EQ(run(s, &y).code(), Code::device_lost) << "it stays lost";
}

TEST_F(VulkanFaults, OpeningMayFail) {
  int failures = 0;
  for (int call = 0;; ++call) {
    fault.arm(call, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    const auto device = vulkan::Device::open({.name = gpu_.info().name}, &hook);
    if (!fault.happened) {
      EXPECT_TRUE(device.ok()) << device.status().message();
      break;
    }
    ++failures;
    EXPECT_EQ(device.status().code(), Code::out_of_memory);
  }
  EXPECT_GE(failures, 4);
}

// A kernel stays trusted if there was no memory to test it.
TEST_F(VulkanFaults, ASelfTestWithoutMemoryIsNoVerdict) {
  Gpu gpu = must(Gpu::open({.name = gpu_.info().name}));
  hook(gpu);
  std::vector<float> y;
  fault.arm(3, VK_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(work(gpu, layer(), &y).code(), Code::out_of_memory);
  fault.arm(-1, VK_SUCCESS);
  SessionOptions options;
  options.device = Device::vulkan;
  options.gpu = gpu;
  const Session s = must(session(layer(), options));
  EXPECT_EQ(s.report().find("fails its self-test"), std::string::npos) << s.report();
  EXPECT_EQ(s.report().find("runs on the CPU"), std::string::npos) << s.report();
}

// If an arena could not grow, the next run that needs it allocates it again.
TEST_F(VulkanFaults, OtherSizesThatDoNotFitLeaveTheFirst) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 8});
  g.output("y", relu(matmul(x, g.parameter("w", f32, {8, 8}, init::uniform(-1, 1, 1)))) * 2.0);
  const Gpu gpu = open();
  hook(gpu);
  SessionOptions options;
  options.device = Device::vulkan;
  options.gpu = gpu;
  Session s = must(session(g, options));
  std::vector<float> expected, y;
  ASSERT_TRUE(run(s, &expected).ok());
  const std::vector<float> large = numbers(8 * 5000);
  int failures = 0;
  for (int call = 0;; ++call) {
    fault.arm(call, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    ASSERT_TRUE(s.set_input("x", view(large, {5000, 8})).ok());
    const Status status = s.run();
    const bool happened = fault.happened;
    fault.arm(-1, VK_SUCCESS);
    const Status again = run(s, &y);
    ASSERT_TRUE(again.ok()) << call << ": " << again.message();
    EXPECT_EQ(y, expected) << call;
    if (!happened) break;
    EXPECT_EQ(status.code(), Code::out_of_memory) << status.message();
    ++failures;
  }
  EXPECT_GT(failures, 5);
}

TEST_F(VulkanFaults, SessionsGoWhileAnotherRuns) {
  std::vector<float> expected;
  ASSERT_TRUE(work(gpu_, layer(), &expected).ok());
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, runs{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      Result<Session> s = session(layer(), options());
      std::vector<float> y;
      while (!stop) {
        if (!s.ok() || !run(*s, &y).ok() || y != expected) ++wrong;
        ++runs;
      }
    });
  for (int i = 0; i < 100; ++i) {
    std::vector<float> y;
    if (!work(gpu_, layer(), &y).ok() || y != expected) ++wrong;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(runs, 2);
}

// The device lives as long as a session, an output or a tensor on it needs it.
TEST_F(VulkanFaults, TheLastOneClosesTheDevice) {
  SessionOptions options;
  options.device = Device::vulkan;
  options.gpu = open();
  options.device_outputs = true;
  DeviceTensor y;
  Gpu gpu;
  {
    Session s = must(session(layer(), options));
    gpu = std::exchange(options.gpu, {});
    const std::vector<float> x = numbers(32);
    ASSERT_TRUE(s.set_input("x", view(x, {4, 8})).ok() && s.run().ok());
    y = *s.device_output(0);
  }
  EXPECT_TRUE(gpu.download(y).ok());
  gpu = {};
  y = {};
}

}  // namespace
}  // namespace hg::test
