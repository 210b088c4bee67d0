// SPDX-License-Identifier: Apache-2.0
// What SessionOptions::autotune measures and chooses, with application kernels that are slow,
// reject a case, or are the only ones to accept it.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/kernel.h"
#include "tests/support/must.h"

namespace hg {
namespace {

constexpr int64_t kSize = 64;  // of the square matrices: 2 * 64^3 FLOP, enough to be measured

// How often each kernel of this file ran. The counters are global because kernels have no state.
std::atomic<int> crawls{0}, fallbacks{0}, refusals{0};

void product(const RunContext& c) {
  const float *a = c.in(0).as<float>(), *b = c.in(1).as<float>();
  float* y = c.out(0).as<float>();
  for (int64_t i = 0; i < kSize; ++i)
    for (int64_t j = 0; j < kSize; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < kSize; ++k) sum += double{a[i * kSize + k]} * b[k * kSize + j];
      y[i * kSize + j] = static_cast<float>(sum);
    }
}

void crawl(const RunContext& c) noexcept {
  ++crawls;
  for (int i = 0; i < 20; ++i) product(c);
}
void fall_back(const RunContext& c) noexcept {
  ++fallbacks;
  product(c);
}
void refuse(const RunContext&) noexcept { ++refusals; }

constexpr KernelDef kCrawl = {.op = "matmul", .name = "crawl", .run = crawl};
constexpr KernelDef kFallback = {
    .op = "matmul", .name = "last", .run = fall_back, .is_fallback = true};

Registry with(std::initializer_list<const KernelDef*> kernels) {
  Registry registry;
  for (const KernelDef* kernel : kernels) EXPECT_TRUE(registry.add(*kernel).ok());
  return registry;
}

Model product_of(const Registry& registry, std::string_view op = "matmul") {
  Graph g(registry);
  const Value a = g.input("a", f32, {kSize, kSize}), b = g.input("b", f32, {kSize, kSize});
  g.output("y", g.call(op, {a, b}));
  return must(Model::from_graph(std::move(g)));
}

struct Ran {
  std::string kernel;
  std::vector<std::byte> tuning;
  std::vector<float> y = std::vector<float>(kSize * kSize);
};

Ran run(const Model& model, SessionOptions options) {
  Ran ran;
  options.threads = 1;
  Session session = must(Session::create(model, options));
  std::vector<float> a(kSize * kSize), b(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(static_cast<int>(i % 13) - 6);  // so that products are exact
    b[i] = static_cast<float>(static_cast<int>(i % 7) - 3);
  }
  EXPECT_TRUE(session.set_input("a", view(a, {kSize, kSize})).ok());
  EXPECT_TRUE(session.set_input("b", view(b, {kSize, kSize})).ok());
  must(session.run());
  copy_elements(*session.output("y"), view(ran.y, {kSize, kSize}));
  const std::string report = session.report();
  const size_t by = report.find(" by ");
  if (by != std::string::npos) ran.kernel = report.substr(by + 4, report.find('\n', by) - by - 4);
  ran.tuning = session.tuning();
  return ran;
}

bool mentions(const std::vector<std::byte>& blob, std::string_view name) {
  const std::string_view text(reinterpret_cast<const char*>(blob.data()), blob.size());
  return text.find(name) != std::string_view::npos;
}

TEST(Autotune, MeasuresAndLeavesASlowKernel) {
  const Registry registry = with({&kCrawl});
  const Model model = product_of(registry);
  crawls = 0;
  const Ran usual = run(model, {});
  EXPECT_EQ(usual.kernel, "crawl");  // an application's kernel is tried first
  EXPECT_EQ(crawls, 1);
  crawls = 0;
  const Ran tuned = run(model, {.autotune = true});
  EXPECT_GT(crawls, 0) << "it was not measured";
  EXPECT_NE(tuned.kernel, "crawl");
  EXPECT_EQ(tuned.y, usual.y);
  // The next session uses the measurements of the first.
  crawls = 0;
  EXPECT_EQ(run(model, {.tuning = tuned.tuning}).kernel, tuned.kernel);
  EXPECT_EQ(crawls, 0);
}

TEST(Autotune, NeverMeasuresAFallback) {
  const Registry registry = with({&kFallback, &kCrawl});
  const Model model = product_of(registry);
  fallbacks = 0;
  const Ran tuned = run(model, {.autotune = true});
  EXPECT_EQ(fallbacks, 0);
  EXPECT_NE(tuned.kernel, "last");
  EXPECT_EQ(run(model, {.kernels = {"matmul=last"}}).y, tuned.y);  // if it is requested
  EXPECT_EQ(fallbacks, 1);
}

TEST(Autotune, AFallbackIsTriedLast) {
  const Registry added_last = with({&kCrawl, &kFallback}),
                 added_first = with({&kFallback, &kCrawl});
  for (const Registry* registry : {&added_last, &added_first}) {
    EXPECT_EQ(run(product_of(*registry), {}).kernel, "crawl");
    const auto kernels = registry->kernels("matmul", Device::cpu);
    bool before = false;
    for (const KernelDef* kernel : kernels) {
      EXPECT_GE(kernel->is_fallback, before) << kernel->name << " comes after a fallback";
      before = kernel->is_fallback;
    }
  }
}

// An op whose expansion is faster than its kernels: no kernel gets the expansion's time.
TEST(Autotune, DoesNotTakeTheExpansionForAKernel) {
  constexpr OpDef kOp = {
      .name = "acme.product",
      .signature = "acme.product(a, b) -> y",
      .infer =
          [](InferContext& c) {
            c.out(0) = c.in(0);
            return Status();
          },
      .expand =
          [](ExpandContext& c) {
            c.set_out(0, c.graph().call("matmul", {c.in(0), c.in(1)}));
            return Status();
          },
      .flops = [](std::span<const Sizes>, std::span<const Sizes>,
                  const AttrReader&) { return 2.0 * kSize * kSize * kSize; },
  };
  constexpr KernelDef kSlow = {.op = "acme.product", .name = "crawl", .run = crawl};
  constexpr KernelDef kPicky = {.op = "acme.product",
                                .name = "picky",
                                .accepts = [](const PrepareContext&) { return false; },
                                .run = refuse};
  Registry registry;
  ASSERT_TRUE(registry.add(kOp).ok());
  ASSERT_TRUE(registry.add(kSlow).ok());
  ASSERT_TRUE(registry.add(kPicky).ok());
  const Ran tuned = run(product_of(registry, "acme.product"), {.autotune = true});
  EXPECT_EQ(refusals, 0);
  EXPECT_EQ(tuned.kernel, "crawl");
  EXPECT_TRUE(mentions(tuned.tuning, "crawl"));
  EXPECT_FALSE(mentions(tuned.tuning, "picky"));
}

// If an op has several kernels, the last one accepts every case, and only the last is a fallback.
TEST(Autotune, EveryFallbackTakesEverythingAndIsNeverAlone) {
  int fallbacks_found = 0;
  for (const Op* op : Registry::built_in().ops()) {
    const auto kernels = Registry::built_in().kernels(op->name(), Device::cpu);
    for (size_t i = 0; i < kernels.size(); ++i) {
      const KernelDef& kernel = *kernels[i];
      if (!kernel.is_fallback) continue;
      ++fallbacks_found;
      EXPECT_EQ(kernel.accepts, nullptr) << kernel.op << "=" << kernel.name;
      EXPECT_GT(i, 0u) << kernel.op << "=" << kernel.name;
      EXPECT_EQ(i + 1, kernels.size()) << kernel.op << "=" << kernel.name;
    }
  }
  EXPECT_GE(fallbacks_found, 8);
}

}  // namespace
}  // namespace hg
