// SPDX-License-Identifier: Apache-2.0
// The kernels of an application's own device (hg/backend.h): self-tests decide which ones run, and
// incomplete backends are refused.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <vector>

#include "hg/executor.h"
#include "hg/hg.h"
#include "hg/ops.h"
#include "lib/device/backend.h"
#include "lib/run/self_test.h"
#include "samples/backend/counting_backend.h"
#include "tests/run/backend_on.h"
#include "tests/support/must.h"

namespace hg::test {
namespace {

using sample::CountingBackend;

// A backend whose row of an op is changed.
class Changed final : public CountingBackend {
 public:
  using Accepts = bool (*)(const PrepareContext&);
  Changed(std::string_view wrong, std::string_view op, Accepts accepts) {
    for (KernelDef& row : rows_) {
      if (row.op == op) row.accepts = accepts;
      if (row.op != wrong) continue;
      row.prepare = +[](PrepareContext& c) {
        HG_TRY(sample::prepare(c));
        static constexpr KernelDef kSevens = {.run = [](const RunContext& r) noexcept {
          for (int64_t i = 0; i < r.out(0).count(); ++i) r.out(0).as<float>()[i] = 7;
        }};
        c.state<sample::Call>()->kernel = &kSevens;
        return Status();
      };
    }
  }
};

TEST(Backend, WrongKernelsAreNotUsed) {
  const Gpu gpu = must(Gpu::open_backend(std::make_shared<Changed>("gelu", "", nullptr)));
  Graph g;
  g.output("y", gelu(g.input("x", f32, {4})));
  const Model model = must(Model::from_graph(std::move(g)));
  Session session = must(Session::create(model, on(gpu)));
  const std::vector<float> x = {-1, 0, 1, 2};
  must(session.set_input("x", view(x, {4})));
  must(session.run());
  EXPECT_NEAR(session.output("y")->as<float>()[3], 1.9545f, 1e-4);
  EXPECT_NE(session.report().find("gelu=counting fails its self-test"), std::string::npos)
      << session.report();
}

bool never(const PrepareContext&) { return false; }
bool four(const PrepareContext& c) { return c.in(0).count() == 4; }

// The parts of an expanded op are not tested in place of its row.
TEST(Backend, WrongKernelsAreNotBlamedOnOthers) {
  const Gpu gpu = must(Gpu::open_backend(std::make_shared<Changed>("add", "linear", never)));
  Graph g;
  const Value x = g.input("x", f32, {4, 4});
  g.output("y", g.call("linear", {x, x, g.input("b", f32, {4})}));
  Session session = must(Session::create(must(Model::from_graph(std::move(g))), on(gpu)));
  const std::vector<float> values = numbers(16);
  must(session.set_input("x", view(values, {4, 4})));
  must(session.set_input("b", view(values, {4})));
  must(session.run());
  EXPECT_EQ(session.report().find("linear=counting fails"), std::string::npos) << session.report();
  EXPECT_EQ(session.report().find("f32[]"), std::string::npos) << session.report();
}

TEST(Backend, UntestedKernelsAreReported) {
  for (const bool is_tested : {false, true}) {
    const Gpu gpu = must(Gpu::open_backend(
        std::make_shared<Changed>("", is_tested ? "" : "gelu", is_tested ? nullptr : four)));
    Graph g;
    g.output("y", gelu(g.input("x", f32, {4})));
    Session session = must(Session::create(must(Model::from_graph(std::move(g))), on(gpu)));
    const std::vector<float> x = {-1, 0, 1, 2};
    must(session.set_input("x", view(x, {4})));
    must(session.run());
    EXPECT_NEAR(session.output("y")->as<float>()[3], 1.9545f, 1e-4);
    const bool says = session.report().find(
                          "gelu=counting is untested: it accepts no case of the "
                          "self-test for f32") != std::string::npos;
    EXPECT_EQ(says, !is_tested) << session.report();
  }
}

// Each case is accepted by the CPU's kernels, which this backend has, and agrees with them.
TEST(Backend, PassesTheSelfTestsOfItsOps) {
  const Gpu gpu = must(Gpu::open_backend(std::make_shared<CountingBackend>()));
  const Registry& registry = Registry::built_in();
  for (const char* name : {"add",
                           "all",
                           "any",
                           "attention_grad",
                           "batch_norm",
                           "batch_norm_grad",
                           "cdist",
                           "col2im",
                           "det",
                           "diagonal_scatter",
                           "fft",
                           "grid_sample",
                           "im2col",
                           "index",
                           "index_put",
                           "index_reduce",
                           "interpolate",
                           "layer_norm_grad",
                           "linear",
                           "linear_scan",
                           "masked_scatter",
                           "matrix_exp",
                           "max_pool_grad",
                           "roll",
                           "rope",
                           "searchsorted",
                           "slice_scatter",
                           "solve_triangular"}) {
    const Op* op = registry.find(name);
    const auto rows = kernels_of(gpu, registry, *op);
    if (rows.empty()) continue;
    const DeviceTimes times = must(judge(*rows[0], *op, f32, on(gpu), registry));
    EXPECT_GT(times.gpu_ms, 0) << name;
    EXPECT_TRUE(std::isfinite(times.gpu_ms)) << name;
  }
}

// A backend may have a row for any op that the CPU computes. Ops without inputs are folded before a
// device is chosen, and assertions decide on the host.
TEST(Backend, EveryOpHasACase) {
  const Gpu gpu = must(Gpu::open_backend(std::make_shared<CountingBackend>()));
  const Registry& registry = Registry::built_in();
  std::string without, wrong;
  for (const Op* op : registry.ops()) {
    if ((op->def.traits & (kControl | kRandom | kAssertion)) != 0) continue;
    if (op->signature.inputs.empty()) continue;
    const auto rows = kernels_of(gpu, registry, *op);
    if (rows.empty()) continue;
    if (self_test_cases(*op, f32, registry, "").empty()) {
      without += str_cat(" ", op->name());
      continue;
    }
    const DeviceTimes times = must(judge(*rows[0], *op, f32, on(gpu), registry));
    if (!(times.gpu_ms > 0) || !std::isfinite(times.gpu_ms)) wrong += str_cat(" ", op->name());
  }
  EXPECT_EQ(without, "");
  EXPECT_EQ(wrong, "");
}

TEST(Backend, ReportsAbsentInputs) {
  const Gpu gpu = must(Gpu::open_backend(std::make_shared<Changed>("", "clamp", never)));
  Graph g;
  const Value x = g.input("x", f32, {4});
  g.output("y", g.call("clamp", {x, Value(), x}));
  Session session = must(Session::create(must(Model::from_graph(std::move(g))), on(gpu)));
  const std::vector<float> values = numbers(4);
  must(session.set_input("x", view(values, {4})));
  must(session.run());
  EXPECT_NE(session.report().find("f32[4], absent, f32[4]"), std::string::npos) << session.report();
}

TEST(Backend, IncompleteBackendsAreRefused) {
  const auto refused = [](auto change) {
    class Changed final : public CountingBackend {
     public:
      DeviceInfo& info_to_change() { return info_; }
      std::deque<KernelDef>& rows() { return rows_; }
    };
    auto backend = std::make_shared<Changed>();
    change(*backend);
    return std::string(Gpu::open_backend(backend).status().message());
  };
  EXPECT_EQ(refused([](auto& b) { b.info_to_change().name = ""; }),
            "the backend's info() has no name");
  EXPECT_EQ(refused([](auto& b) { b.info_to_change().max_binding_bytes = 0; }),
            "the backend 'counting' has max_binding_bytes 0; it must be positive");
  EXPECT_EQ(refused([](auto& b) {
              for (KernelDef& row : b.rows()) row.strided = 0;
            }),
            "the backend 'counting' has no kernel for 'contiguous' with any strides (kAllStrided)");
  EXPECT_NE(refused([](auto& b) {
              b.rows()[0].device = Device::cpu;
            }).find("must have Device::vulkan as its device"),
            std::string::npos);
  EXPECT_NE(refused([](auto& b) { b.rows()[0].prepare = nullptr; }).find("has no prepare"),
            std::string::npos);
  EXPECT_EQ(Gpu::open_backend(nullptr).status().message(), "open_backend() is given no backend");
}

}  // namespace
}  // namespace hg::test
