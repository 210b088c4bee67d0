// SPDX-License-Identifier: Apache-2.0
// Kernels do not compute with what earlier nodes left in their workspace, even if they discard the
// results. Two 16-bit numbers are often a subnormal float, and some processors take a hundred times
// as long for those. x86 notes their use in MXCSR.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "hg/hg.h"
#include "hg/kernel.h"
#include "hg/registry.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

#if defined(__SSE2__)
#include <xmmintrin.h>

namespace hg {
namespace {

const KernelDef* kernel;  // runs in a workspace of subnormal numbers
int64_t workspace, runs = 0, used = 0;

Status prepare(PrepareContext& c) {
  if (kernel->prepare != nullptr) {
    const Status status = kernel->prepare(c);
    if (!status.ok()) return status;
  }
  workspace = c.workspace();
  return {};
}

void run(const RunContext& c) noexcept {
  constexpr uint32_t kSubnormal = 0x00003c01;
  constexpr unsigned kUsed = 1 << 1;  // the flag "denormal operand"
  std::fill_n(c.workspace<uint32_t>(), workspace / 4, kSubnormal);
  _mm_setcsr(_mm_getcsr() & ~kUsed);
  kernel->run(c);
  ++runs;
  used += (_mm_getcsr() & kUsed) != 0;
}

class Case : private test::Chance {
 public:
  explicit Case(uint64_t seed) : Chance(seed) {}

  // On every kernel of `op` that accepts the node, with every instruction set.
  void run(std::string_view op, Precision precision) {
    Graph graph;
    graph.output("y", op == "conv" ? conv_node(graph) : quantized_node(graph));
    const Model model = must(Model::from_graph(std::move(graph)));
    for (const KernelDef* const each : Registry::built_in().kernels(op, Device::cpu)) {
      kernel = each;
      const KernelDef filled = {
          .op = op, .name = "filled", .accepts = each->accepts, .prepare = prepare, .run = hg::run};
      Registry registry;
      ASSERT_TRUE(registry.add(filled).ok());
      for (const Isa isa : kIsas) {
        if (!supports(isa)) continue;
        limit_isa(isa);
        Session session = must(
            Session::create(model, {.threads = 1, .precision = precision, .registry = &registry}));
        ASSERT_TRUE(session.set_input("x", x_.tensor).ok());
        used = 0;
        ASSERT_TRUE(session.run().ok());
        EXPECT_EQ(used, 0) << each->name << " with " << to_string(isa);
      }
      limit_isa(kBestIsa);
    }
  }

 private:
  TensorData numbers(const Sizes& shape) {
    TensorData data = must(TensorData::allocate(f32, shape));
    for (int64_t i = 0; i < shape.count(); ++i)
      data.tensor.as<float>()[i] = static_cast<float>(below(2001) - 1000) / 1000;
    return data;
  }
  Value input(Graph& graph, const Sizes& shape) {
    x_ = numbers(shape);
    return graph.input("x", f32, {shape.begin(), shape.end()});
  }
  Value weight(Graph& graph, const Sizes& shape) { return graph.constant(numbers(shape)); }
  Value levels(Graph& graph, const Sizes& shape) {
    TensorData data = must(TensorData::allocate(i8, shape));
    for (int64_t i = 0; i < shape.count(); ++i)
      data.tensor.as<int8_t>()[i] = static_cast<int8_t>(below(255) - 127);
    return graph.constant(std::move(data));
  }
  Value conv_node(Graph& graph) {
    const int64_t kernel = chance(60) ? 3 : 1 + below(4), c = 1 + below(40), o = 1 + below(40);
    const Value x = input(graph, {1 + below(2), c, kernel + below(20), kernel + below(20)});
    ConvOptions options;
    options.stride = {chance(60) ? 1 : 1 + below(4)};
    options.padding = {below(kernel)};
    return conv(x, weight(graph, {o, c, kernel, kernel}), weight(graph, {o}), options);
  }
  Value quantized_node(Graph& graph) {
    const int64_t m = 1 + below(40), n = 1 + below(40), k = 1 + below(100);
    return graph.call("quantized_linear",
                      {input(graph, {m, k}), levels(graph, {n, k}), weight(graph, {n, 1})},
                      {{"packing", "bytes"}, {"group", k}});
  }

  TensorData x_;
};

TEST(SubnormalWorkspaces, OfConvolutions) {
  test::for_cases(60, [](uint64_t i) { Case(i).run("conv", Precision::f32); });
  EXPECT_GT(runs, 0);
}

TEST(SubnormalWorkspaces, OfProductsWithLevels) {
  test::for_cases(60, [](uint64_t i) { Case(i).run("quantized_linear", Precision::i8); });
}

}  // namespace
}  // namespace hg
#endif
