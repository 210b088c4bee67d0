// SPDX-License-Identifier: Apache-2.0
// An op of the application's own, y = x + gain * sin(x): its shape rule, its gradient and its
// kernel, registered under the name that the model calls it by. Runs the model and takes dy/dx
// through it.
#include <cmath>
#include <cstdio>
#include <string>

#include "hg/hg.h"

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

constexpr hg::OpDef kWave = {.name = "acme.wave",
                             .signature = "acme.wave(x, gain: float) -> y",
                             .infer = infer_wave,
                             .grad = wave_gradient};

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

void print(const char* name, const hg::Tensor& tensor) {
  std::printf("%s", name);
  for (int64_t i = 0; i < tensor.count(); ++i) std::printf(" %.3f", tensor.as<float>()[i]);
  std::printf("\n");
}

hg::Status run_model(const std::string& file) {
  hg::Registry registry;  // the library's ops and the application's
  HG_TRY(registry.add(kWave));
  HG_TRY(registry.add(kWaveKernel));
  HG_TRY_ASSIGN(hg::Model model, hg::Model::load(file, registry));

  hg::Graph& graph = model.graph();
  const hg::Value x = graph.value(graph.inputs()[0]);
  const hg::Value y = graph.value(graph.outputs()[0].second);
  const auto dx = hg::gradients(y, {x});  // of the sum of y
  HG_TRY(graph.status());
  graph.output("dx", dx[0]);

  HG_TRY_ASSIGN(hg::Session session, hg::Session::create(model));
  const float numbers[] = {0.1f, 0.2f, 0.3f, 0.4f, 1.0f, -1.0f, 0.5f, -0.5f};
  HG_TRY(session.set_input(0, hg::view(numbers, hg::f32, {2, 4})));
  HG_TRY(session.run());
  HG_TRY_ASSIGN(const hg::Tensor result, session.output(0));
  print("y", result);
  HG_TRY_ASSIGN(const hg::Tensor gradient, session.output("dx"));
  print("dy/dx", gradient);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: custom_op WAVE.hgm\n");
    return 1;
  }
  const hg::Status status = run_model(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "custom_op: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
