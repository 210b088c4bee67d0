// SPDX-License-Identifier: Apache-2.0
// acme.wave: its shape rule, its gradient and its kernel.
#include "wave.h"

#include <cmath>

#include "hg/kernel.h"
#include "hg/ops.h"

namespace acme {
namespace {

hg::Status infer_wave(hg::InferContext& c) {
  if (!is_float(c.in(0).dtype)) return c.fail("x is ", c.in(0).dtype, ", not a float");
  c.out(0) = c.in(0);
  return {};
}

// dx = dy * (1 + gain * cos(x))
hg::Status wave_gradient(hg::GradContext& c) {
  c.set_grad(0, c.dout(0) * (c.attrs().real("gain") * cos(c.in(0)) + 1.0));
  return {};
}

constexpr hg::OpDef kWave = {
    .signature = "acme.wave(x, gain: float) -> y", .infer = infer_wave, .grad = wave_gradient};

bool takes_f32(const hg::PrepareContext& c) { return c.in(0).dtype == hg::f32; }

hg::Status prepare_wave(hg::PrepareContext& c) {
  c.make_state(static_cast<float>(c.attrs().real("gain")));
  return {};
}

void run_wave(const hg::RunContext& c) noexcept {
  const float gain = c.state<float>();
  const float* x = c.in(0).as<float>();
  float* y = c.out(0).as<float>();
  c.parallel_for(c.out(0).count(), 4096, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = x[i] + gain * std::sin(x[i]);
  });
}

constexpr hg::KernelDef kWaveKernel = {.op = "acme.wave",
                                       .device = hg::Device::cpu,
                                       .name = "plain",
                                       .accepts = takes_f32,
                                       .prepare = prepare_wave,
                                       .run = run_wave};

}  // namespace

hg::Status add_ops(hg::Registry& registry) {
  HG_TRY(registry.add(kWave));
  return registry.add(kWaveKernel);
}

}  // namespace acme
