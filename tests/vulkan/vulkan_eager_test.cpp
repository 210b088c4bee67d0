// SPDX-License-Identifier: Apache-2.0
// Arrays and calls on a Vulkan device: the same results as on the CPU, and no repeated transfers.

#include "hg/create.h"
#include "hg/executor.h"
#include "hg/train.h"
#include "hg/var.h"
#include "tests/support/must.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace hg::test {
namespace {

class VulkanEager : public Vulkan {
 protected:
  Executor executor() const {
    return must(Executor::create({.device = Device::vulkan, .gpu = gpu_}));
  }
  // Transfers and submissions since `before`.
  GpuCounters since(const GpuCounters& before) const {
    GpuCounters now = gpu_.counters();
    now.uploads -= before.uploads;
    now.upload_bytes -= before.upload_bytes;
    now.downloads -= before.downloads;
    now.download_bytes -= before.download_bytes;
    now.submits -= before.submits;
    return now;
  }
};

std::vector<float> floats_of(const Result<Array>& array) {
  EXPECT_TRUE(array.ok()) << array.status().message();
  if (!array.ok()) return {};
  EXPECT_TRUE(array->to_host().ok());
  const Result<Array> dense = Array::copy_of(*array);
  return std::vector<float>(dense->as<float>(), dense->as<float>() + dense->count());
}

TEST_F(VulkanEager, SidesAreBroughtUpToDateOnce) {
  Array a = *arange(0, 1000);
  EXPECT_FALSE(a.is_on_device());
  GpuCounters before = gpu_.counters();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(a.to_device(gpu_).ok());
  EXPECT_EQ(since(before).uploads, 1);
  EXPECT_EQ(since(before).upload_bytes, 4000);
  EXPECT_TRUE(a.is_on_device() && a.is_on_host());
  before = gpu_.counters();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(a.to_host().ok());
  EXPECT_EQ(since(before).downloads, 0);
  a.write<float>()[3] = -1;  // the device's copy is outdated now
  EXPECT_FALSE(a.is_on_device());
  const Array part = *a.narrow(0, 3, 2);
  ASSERT_TRUE(part.to_device(gpu_).ok());  // copies the whole memory
  EXPECT_TRUE(a.is_on_device());
  EXPECT_EQ(since(before).uploads, 1);
  Executor ex = executor();
  EXPECT_EQ(floats_of(ex.relu(part)), (std::vector<float>{0, 4}));
  a.free();
  EXPECT_FALSE(part.is_on_device());
  EXPECT_FALSE(part.to_device(gpu_).ok());
  EXPECT_FALSE(ex.relu(part).ok());
}

TEST_F(VulkanEager, AListGoesUpInOneSubmission) {
  std::vector<Array> list;
  for (int i = 0; i < 20; ++i) list.push_back(*full({50000 + i}, 0.5 * i));
  list.push_back(*list[3].narrow(0, 5, 5));  // its memory is in the list already
  GpuCounters before = gpu_.counters();
  ASSERT_TRUE(Array::to_device(list, gpu_).ok());
  EXPECT_EQ(since(before).submits, 1);
  EXPECT_EQ(since(before).uploads, 20);
  before = gpu_.counters();
  ASSERT_TRUE(Array::to_device(list, gpu_).ok());
  EXPECT_EQ(since(before).submits, 0);
  Executor ex = executor();
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(floats_of(ex.amax(list[size_t(i)])), std::vector<float>{0.5f * float(i)});
  EXPECT_LT(since(before).upload_bytes, list[0].bytes());  // tables of kernels, but no array
  EXPECT_FALSE(Array::to_device(std::vector<Array>{Array()}, gpu_).ok());
  EXPECT_FALSE(list[0].to_device(Gpu()).ok());
}

TEST_F(VulkanEager, ResultsStayOnTheDevice) {
  Executor ex = executor();
  EXPECT_EQ(ex.device(), Device::vulkan);
  const Array x = *rand({64, 32}, 1), w = *rand({16, 32}, 2);
  ASSERT_TRUE(ex.relu(ex.linear(x, w)).ok());  // plans and tests kernels
  const GpuCounters before = gpu_.counters();
  const Array y = *ex.relu(ex.linear(x, w));
  EXPECT_TRUE(y.is_on_device());
  EXPECT_FALSE(y.is_on_host());
  EXPECT_EQ(y.as<float>(), nullptr);
  EXPECT_EQ(ConstTensor(y).data, nullptr);
  EXPECT_EQ(since(before).downloads, 0);
  Executor cpu = *Executor::create({.threads = 1});
  const std::vector<float> expected = floats_of(cpu.relu(cpu.linear(x, w)));
  const std::vector<float> got = floats_of(y);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-5 * (1 + expected[i]));
  EXPECT_EQ(since(before).downloads, 1);
  EXPECT_EQ(since(before).download_bytes, y.bytes());
  // An executor on the CPU reads y on the host, where its elements are by now.
  EXPECT_EQ(floats_of(cpu.relu(y)), got);
  EXPECT_EQ(since(before).downloads, 1);
  ASSERT_TRUE(ex.add(y, y).ok());  // plans
  const GpuCounters later = gpu_.counters();
  const Array z = *ex.add(y, y);
  EXPECT_EQ(since(later).downloads, 0);
  EXPECT_EQ(floats_of(cpu.sub(z, y)), got);
  EXPECT_EQ(since(later).downloads, 1);
}

TEST_F(VulkanEager, ViewsPlacesAndNumbers) {
  Executor ex = executor();
  const Array x = *arange(0, 12)->reshape({3, 4});
  const Array turned = *ex.permute(x, {1, 0});
  EXPECT_TRUE(turned.shares_memory_with(x));
  EXPECT_EQ(floats_of(ex.mul(turned, 2)),
            (std::vector<float>{0, 8, 16, 2, 10, 18, 4, 12, 20, 6, 14, 22}));
  EXPECT_EQ(floats_of(ex.add(*x.select(0, 1), *x.select(0, 2))),
            (std::vector<float>{12, 14, 16, 18}));
  EXPECT_EQ(floats_of(ex.add(*ex.flip(x, {1}), x)),
            (std::vector<float>{3, 3, 3, 3, 11, 11, 11, 11, 19, 19, 19, 19}));
  // Into an input, into a part of an array, and into memory with gaps.
  Array y = *Array::copy_of(x);
  ASSERT_TRUE(ex.into(y).mul(y, y).ok());
  EXPECT_FALSE(y.is_on_host());
  Array row = *y.select(0, 1);
  ASSERT_TRUE(ex.into(row).add(row, 100).ok());
  Array column = *y.select(1, 0);
  ASSERT_TRUE(ex.into(column).mul(column, -1.0).ok());
  EXPECT_EQ(floats_of(y), (std::vector<float>{0, 1, 4, 9, -116, 125, 136, 149, -64, 81, 100, 121}));
  Array place = *zeros({4, 3});
  ASSERT_TRUE(ex.into(place).permute(ex.mul(x, 2), {1, 0}).ok());
  EXPECT_EQ(floats_of(place), (std::vector<float>{0, 8, 16, 2, 10, 18, 4, 12, 20, 6, 14, 22}));
  const std::vector<float> mine = {1, 2, 3};
  EXPECT_EQ(floats_of(ex.add(view(mine, {3}), 1)), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(floats_of(ex.add(*zeros({0, 3}), view(mine, {3}))), std::vector<float>());
  EXPECT_EQ(ex.nonzero(*x.select(0, 0))->shape(), (Sizes{3, 1}));  // this kernel runs on the CPU
  EXPECT_FALSE(ex.add(x, *zeros({5})).ok());
}

TEST_F(VulkanEager, RandomCallsAgreeWithTheCpu) {
  Executor device = executor(), cpu = *Executor::create({.threads = 1});
  uint64_t state = 7;
  const auto below = [&](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  std::vector<Array> pool = {*randn({4, 6}, 1), *randn({4, 6}, 2), *randn({1, 6}, 3),
                             *randn({4, 1}, 4)};
  constexpr std::string_view kTwo[] = {"add", "sub", "mul", "maximum"};
  constexpr std::string_view kOne[] = {"relu", "tanh", "sigmoid", "neg", "abs"};
  for (int round = 0; round < 60; ++round) {
    Array a = pool[below(pool.size())], b = pool[below(pool.size())];
    if (below(3) == 0 && a.rank() == 2) a = *a.transpose(0, 1);
    if (below(4) == 0) a = *a.slice(0, 0, a.shape()[0], 2);
    const bool two = below(2) == 0;
    const std::string_view op = two ? kTwo[below(4)] : kOne[below(5)];
    const std::vector<Operand> inputs = two ? std::vector<Operand>{a, b} : std::vector<Operand>{a};
    const Result<Array> there = device.call(op, inputs), here = cpu.call(op, inputs);
    ASSERT_EQ(there.ok(), here.ok()) << op;
    if (!here.ok()) continue;
    const std::vector<float> got = floats_of(there), expected = floats_of(here);
    ASSERT_EQ(there->shape(), here->shape());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], 1e-5) << op << " in round " << round;
    if (pool.size() < 20) pool.push_back(*there);
  }
}

TEST_F(VulkanEager, ExpressionsRunWhereTheirLeavesAre) {
  const Array a = *arange(0, 6);
  ASSERT_TRUE(a.to_device(gpu_).ok());
  const Var x(a), y = x * x + 1;
  const Var both[] = {y, grad(y, x)};
  ASSERT_TRUE(evaluate(both).ok());
  const GpuCounters before = gpu_.counters();
  const std::vector<Array> found = must(evaluate(both));
  EXPECT_EQ(since(before).uploads, 0);
  EXPECT_EQ(since(before).downloads, 0);
  EXPECT_TRUE(found[0].is_on_device() && !found[0].is_on_host());
  EXPECT_EQ(floats_of(found[0]), (std::vector<float>{1, 2, 5, 10, 17, 26}));
  EXPECT_EQ(floats_of(found[1]), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  const std::vector<Array> there = must(evaluate(std::array{Var(*arange(0, 3)) * 2}, gpu_));
  EXPECT_TRUE(there[0].is_on_device());
  EXPECT_EQ(floats_of(there[0]), (std::vector<float>{0, 2, 4}));
}

TEST_F(VulkanEager, NumbersAreUploadedOnce) {
  Executor ex = executor();
  const Array a = *arange(0, 4);
  ASSERT_TRUE(ex.mul(a, 0.5).ok() && ex.mul(a, 0.25).ok());
  const GpuCounters before = gpu_.counters();
  EXPECT_EQ(floats_of(ex.mul(a, 0.5)), (std::vector<float>{0, 0.5, 1, 1.5}));
  EXPECT_EQ(floats_of(ex.mul(a, 0.25)), (std::vector<float>{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(since(before).uploads, 0);
}

}  // namespace
}  // namespace hg::test
