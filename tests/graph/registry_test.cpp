// SPDX-License-Identifier: Apache-2.0
// Registries: ops are added while other threads read, and lazy expressions see the host's ops.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "hg/hg.h"
#include "hg/kernel.h"
#include "hg/lazy_ops.h"
#include "hg/train.h"
#include "tests/support/must.h"

namespace hg {
namespace {

Status infer_like(InferContext& c) {
  c.out(0) = c.in(0);
  return {};
}
Status twice(ExpandContext& c) {
  c.set_out(0, c.in(0) + c.in(0));
  return {};
}
constexpr OpDef kTwice = {.signature = "acme.twice(x) -> y", .expand = twice};
constexpr OpDef kThird = {
    .name = "acme.third", .signature = "acme.third(x) -> y", .infer = infer_like};
constexpr KernelDef kThirdKernel = {
    .op = "acme.third", .name = "plain", .run = [](const RunContext& c) noexcept {
      for (int64_t i = 0; i < c.out(0).count(); ++i)
        c.out(0).as<float>()[i] = c.in(0).as<float>()[i] / 3;
    }};

TEST(Registry, TakesOpsBesideReaders) {
  constexpr int kOps = 400;
  Registry registry;
  std::deque<std::string> names, signatures;  // rows borrow these strings
  for (int i = 0; i < kOps; ++i) {
    names.push_back(str_cat("acme.op", i));
    signatures.push_back(str_cat("acme.op", i, "(x) -> y"));
  }
  std::deque<KernelDef> kernels;
  std::atomic<int> added = 0;
  std::vector<std::thread> readers;
  for (int k = 0; k < 3; ++k)
    readers.emplace_back([&] {
      while (added < kOps) {
        const int last = added;
        ASSERT_NE(registry.find("matmul"), nullptr);
        ASSERT_FALSE(registry.kernels("matmul", Device::cpu).empty());
        ASSERT_EQ(registry.closest("matmull"), "matmul");
        if (last == 0) continue;
        const std::string& name = names[static_cast<size_t>(last) - 1];
        ASSERT_NE(registry.find(name), nullptr);
        ASSERT_EQ(registry.kernels(name, Device::cpu).size(), 1u);
        const Registry copy = registry;
        ASSERT_NE(copy.find(name), nullptr);
      }
    });
  for (int i = 0; i < kOps; ++i) {
    const auto at = static_cast<size_t>(i);
    ASSERT_TRUE(
        registry.add({.name = names[at], .signature = signatures[at], .infer = infer_like}).ok());
    kernels.push_back({.op = names[at], .name = "plain", .run = kThirdKernel.run});
    ASSERT_TRUE(registry.add(kernels.back()).ok());
    ++added;
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(registry.ops().size(), Registry::built_in().ops().size() + kOps);
  const OpDef again = {.name = names[0], .signature = signatures[0], .infer = infer_like};
  EXPECT_EQ(registry.add(again).message(), "the op 'acme.op0' is registered already");
}

TEST(Registry, ListsOfKernelsStayAsTheyWere) {
  Registry registry;
  const std::span<const KernelDef* const> before = registry.kernels("relu", Device::cpu);
  const std::vector<const KernelDef*> copy(before.begin(), before.end());
  const KernelDef first = {.op = "relu", .name = "own", .run = kThirdKernel.run};
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(registry.add(first).ok());
  EXPECT_TRUE(std::ranges::equal(before, copy));
  EXPECT_EQ(registry.kernels("relu", Device::cpu).size(), copy.size() + 20);
  EXPECT_EQ(registry.kernels("relu", Device::cpu)[0], &first);
}

TEST(Registry, OfLeavesIsThatOfTheirExpressions) {
  Registry registry;
  ASSERT_TRUE(registry.add(kTwice).ok());
  ASSERT_TRUE(registry.add(kThird).ok());
  ASSERT_TRUE(registry.add(kThirdKernel).ok());
  const std::vector<float> numbers = {1, 2, 3};
  for (const Lazy& lazy : {Lazy(registry), Lazy(SessionOptions{.registry = &registry})}) {
    const Var plain(*Array::copy_of(view(numbers, {3}))),
        x(*Array::copy_of(view(numbers, {3})), lazy);
    const Var y = Var::one("acme.third", std::array{Var::one("acme.twice", std::array{plain * x})});
    EXPECT_EQ(y.shape(), Sizes{3});
    const Array value = must(y.value());
    for (int i = 0; i < 3; ++i)
      EXPECT_FLOAT_EQ(value.as<float>()[i], 2 * numbers[i] * numbers[i] / 3);
    const Array slope = must(grad(Var::one("acme.twice", std::array{x * x}), x).value());
    for (int i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(slope.as<float>()[i], 4 * numbers[i]);
    EXPECT_FALSE(grad(y, x).value().ok());  // acme.third has no gradient
  }
  const Var alone(*Array::copy_of(view(numbers, {3})));
  EXPECT_EQ(Var::one("acme.twice", std::array{alone}).value().status().message(),
            "the op 'acme.twice' is not registered");
}

}  // namespace
}  // namespace hg
