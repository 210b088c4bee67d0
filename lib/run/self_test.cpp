// SPDX-License-Identifier: Apache-2.0
#include "lib/run/self_test.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hg/pointwise_program.h"
#include "lib/device/backend.h"
#include "lib/graph/access.h"
#include "lib/graph/checksum.h"
#include "lib/graph/clock.h"
#include "lib/graph/element.h"
#include "lib/run/engine.h"

namespace hg {
namespace {

// Increased when a shader or a case changes (self_test_*cases.cpp), so that earlier verdicts no
// longer count.
constexpr std::string_view kVersion = "self-test 13";

// Every device kernel but this one and those that copy.
std::set<std::string> others(const KernelDef& kernel, const Gpu& gpu, const Registry& registry) {
  std::set<std::string> names;
  for (const Op* op : registry.ops())
    for (const KernelDef* row : kernels_of(gpu, registry, *op))
      if (row != &kernel && row->op != "contiguous") names.insert(str_cat(row->op, "=", row->name));
  return names;
}

// With `kernel`, on the device; `unsupported` if the kernel takes no part in the plan.
Result<std::vector<TensorData>> answers(Graph graph, const SessionOptions& options,
                                        const Registry& registry, double& ms,
                                        const KernelDef* kernel = nullptr) {
  HG_TRY_ASSIGN(const std::unique_ptr<Engine> engine,
                Engine::create(std::move(graph), options, registry));
  if (kernel != nullptr) engine->distrust(others(*kernel, options.gpu, registry));
  HG_TRY_ASSIGN(const std::vector<TensorData> inputs, engine->give_zeros(Bindings()));
  for (size_t i = 0; i < inputs.size(); ++i)
    fill_case(inputs[i].tensor, static_cast<int64_t>(i) + 1);
  HG_TRY(engine->plan({}));
  if (kernel != nullptr && !engine->uses(str_cat(kernel->op, "=", kernel->name)))
    return unsupported("the kernel does not accept the case");
  const Clock::time_point begin = Clock::now();
  HG_TRY(engine->run());
  ms = ms_since(begin);
  return engine->copies_of_outputs();
}

bool agree(const std::vector<TensorData>& got, const std::vector<TensorData>& expected) {
  for (size_t k = 0; k < expected.size(); ++k) {
    const Tensor &a = got[k].tensor, &b = expected[k].tensor;
    if (!(a.shape == b.shape) || a.dtype != b.dtype) return false;
    const double tolerance = size_of(b.dtype) == 2 ? 2e-2 : 1e-4;
    for (int64_t i = 0; i < b.count(); ++i) {
      const double x = element(a, i), y = element(b, i);
      if (std::isnan(x) && std::isnan(y)) continue;
      if (x != y && !(std::abs(x - y) <= tolerance * (1 + std::abs(y)))) return false;
    }
  }
  return true;
}

}  // namespace

Result<DeviceTimes> judge(const KernelDef& kernel, const Op& op, DType real,
                          const SessionOptions& given, const Registry& registry) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  SessionOptions options;
  options.threads = 1;
  options.parallel_for = given.parallel_for;
  options.keep_all_values = true;  // no passes
  SessionOptions on_device = options;
  on_device.device = Device::vulkan;
  on_device.gpu = given.gpu;
  on_device.kernels = {str_cat(kernel.op, "=", kernel.name)};
  const bool fails =
      backend_of(given.gpu).records().fails_self_test.count(on_device.kernels[0]) > 0;
  DeviceTimes times;
  for (const Graph& graph : self_test_cases(op, real, registry, kernel.name)) {
    double cpu_ms = 0, gpu_ms = 0;
    const Result<std::vector<TensorData>> expected = answers(graph, options, registry, cpu_ms);
    if (!expected.ok()) continue;
    Result<std::vector<TensorData>> got = answers(graph, on_device, registry, gpu_ms, &kernel);
    if (!got.ok()) {
      const Code code = got.status().code();
      if (code == Code::device_lost || code == Code::out_of_memory) return got.status();
      if (code == Code::unsupported) continue;
    }
    times.cpu_ms += cpu_ms;
    times.gpu_ms += got.ok() && !fails && agree(*got, *expected) ? gpu_ms : kWrong;
  }
  return times;
}

Result<Verdicts> test_kernels(const Graph& graph, const SessionOptions& options,
                              const Registry& registry) {
  Verdicts verdicts;
  std::set<const Op*> programs, joined;  // kernels of programs, and ops of their steps
  std::set<std::pair<const Op*, DType>> used = {{registry.find("contiguous"), f32}};
  for (const Node& node : graph.nodes()) {
    DType real = f32;
    for (const ValueId id : node.inputs)
      if (id != kNoValue && size_of(graph.value_info(id).type.dtype) == 2 &&
          is_float(graph.value_info(id).type.dtype))
        real = graph.value_info(id).type.dtype;
    used.insert({node.op, real});
    if (node.op->name() != "pointwise_program") continue;
    HG_TRY_ASSIGN(const PointwiseProgram program,
                  PointwiseProgram::parse(AttrReader(node.op, node.attrs).string("program"),
                                          static_cast<int>(node.inputs.size()), registry));
    programs.insert(node.op);
    for (const PointwiseProgram::Step& step : program.steps) {
      used.insert({step.op, real});
      joined.insert(step.op);
    }
  }
  bool programs_fail = false;
  MeasuredTimes& measured = backend_of(options.gpu).records().measured;
  const DeviceInfo& info = options.gpu.info();
  for (const auto& [op, real] : used) {
    if (op == nullptr) continue;
    for (const KernelDef* kernel : kernels_of(options.gpu, registry, *op)) {
      const std::string name = str_cat(kernel->op, "=", kernel->name);
      const std::string all =
          str_cat(kVersion, ";", info.name, ";", info.driver, ";", name, ";", hg::to_string(real));
      const uint64_t key = checksum_of(std::as_bytes(std::span(all)));
      std::optional<DeviceTimes> verdict = measured.find(key);
      if (!verdict) {
        HG_TRY_ASSIGN(verdict, judge(*kernel, *op, real, options, registry));
        measured.note(key, *verdict);
      }
      if (std::isinf(verdict->gpu_ms)) {
        verdicts.wrong.insert(name);
        programs_fail |= kernel->in_programs && joined.contains(op);
      } else if (verdict->gpu_ms == 0) {
        std::string& dtypes = verdicts.untested[name];
        dtypes += str_cat(dtypes.empty() ? "" : ", ", hg::to_string(real));
      } else if (!has_self_test_cases(name)) {
        break;  // later ones are not needed
      }
    }
  }
  if (programs_fail)
    for (const Op* program : programs)
      for (const KernelDef* kernel : kernels_of(options.gpu, registry, *program))
        verdicts.wrong.insert(str_cat(kernel->op, "=", kernel->name));
  return verdicts;
}

}  // namespace hg
