// SPDX-License-Identifier: Apache-2.0
// An application's shader as the Vulkan kernel of its op: values, gradient, limits.
#include <bit>
#include <cmath>

#include "hg/shader.h"
#include "hg/train.h"
#include "tests/support/must.h"
#include "tests/vulkan/vulkan_fixture.h"
#include "wave_code.h"

namespace hg::test {
namespace {

Status infer(InferContext& c) {
  c.out(0) = c.in(0);
  return {};
}
Status gradient(GradContext& c) {
  c.set_grad(0, c.dout(0) * (c.attrs().real("gain") * cos(c.in(0)) + 1.0));
  return {};
}
constexpr OpDef kWave = {
    .signature = "acme.wave(x, gain: float) -> y", .infer = infer, .grad = gradient};

void run(const RunContext& c) noexcept {
  for (int64_t i = 0; i < c.out(0).count(); ++i) c.out(0).as<float>()[i] = -1;  // as a mark
}
constexpr KernelDef kPlain = {.op = "acme.wave", .name = "plain", .run = run};

ShaderDispatch dispatch_of(const PrepareContext& c) {
  const auto gain = static_cast<float>(c.attrs().real("gain"));
  const int64_t count = c.out(0).count();
  return {.code = wave_code,
          .bindings = {{.kind = ShaderBinding::Kind::input}, {.kind = ShaderBinding::Kind::output}},
          .params = {static_cast<uint32_t>(count), std::bit_cast<uint32_t>(gain)},
          .groups = groups_for(c, count, 64),
          .group_size = 64};
}
Status prepare(PrepareContext& c) { return add_dispatch(c, dispatch_of(c)); }
constexpr KernelDef kShader = {
    .op = "acme.wave", .device = Device::vulkan, .name = "shader", .prepare = prepare};

Status prepare_text(PrepareContext& c) {
  static constexpr uint32_t kNoCode[] = {1, 2, 3};
  ShaderDispatch dispatch = dispatch_of(c);
  dispatch.code = kNoCode;
  return add_dispatch(c, std::move(dispatch));
}
constexpr KernelDef kNoShader = {
    .op = "acme.wave", .device = Device::vulkan, .name = "text", .prepare = prepare_text};

Status prepare_missing(PrepareContext& c) {
  ShaderDispatch dispatch = dispatch_of(c);
  dispatch.bindings.push_back({.kind = ShaderBinding::Kind::input, .index = 1});
  return add_dispatch(c, std::move(dispatch));
}
constexpr KernelDef kMissing = {
    .op = "acme.wave", .device = Device::vulkan, .name = "missing", .prepare = prepare_missing};

Registry registry_with(const KernelDef& kernel) {
  Registry registry;
  EXPECT_TRUE(registry.add(kWave).ok() && registry.add(kPlain).ok() && registry.add(kernel).ok());
  return registry;
}

TEST_F(Vulkan, AnApplicationsShaderRunsItsOp) {
  const Registry registry = registry_with(kShader);
  for (const int64_t count : {1, 63, 1000, 300007}) {
    Graph graph(registry);
    const Value x = graph.input("x", f32, {count});
    const Value y = graph.call("acme.wave", {x * 2.0}, {{"gain", 0.5}});
    graph.output("y", y);
    graph.output("dx", grad(y, {x})[0]);
    std::vector<float> numbers(count);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.001f * static_cast<float>(i % 5000);
    Session s = must(session(graph, options()));
    ASSERT_TRUE(s.set_input(0, view(numbers, {count})).ok());
    ASSERT_TRUE(s.run().ok());
    const Tensor out = *s.output("y"), slope = *s.output("dx");
    for (size_t i = 0; i < numbers.size(); ++i) {
      const float twice = 2 * numbers[i];
      ASSERT_NEAR(out.as<float>()[i], twice + 0.5f * std::sin(twice), 1e-5) << i;
      ASSERT_NEAR(slope.as<float>()[i], 2 + std::cos(twice), 1e-5) << i;
    }
    EXPECT_NE(s.report().find("shader"), std::string::npos) << s.report();
  }
}

TEST_F(Vulkan, WhatIsNoShaderIsRefused) {
  for (const auto& [kernel, why] :
       {std::pair(&kNoShader, "the shader is not SPIR-V: its first word is 1, not 119734787"),
        std::pair(&kMissing, "a shader binds input 1, which is not given")}) {
    const Registry registry = registry_with(*kernel);
    Graph graph(registry);
    graph.output("y", graph.call("acme.wave", {graph.input("x", f32, {8})}, {{"gain", 0.5}}));
    SessionOptions wanted = options();
    Result<Session> s = session(graph, wanted);
    const Status status = s.ok() ? s->plan() : s.status();
    EXPECT_NE(status.message().find(why), std::string_view::npos) << status.message();
  }
}

}  // namespace
}  // namespace hg::test
