// SPDX-License-Identifier: Apache-2.0
#include "lib/run/device_choice.h"

#include <algorithm>

#include "lib/device/backend.h"
#include "lib/graph/checksum.h"
#include "lib/run/engine.h"

namespace hg {
namespace {

constexpr int kMostDeviceRuns = 4;     // the first only warms up
constexpr double kMostDeviceMs = 100;  // no run starts after this
// The least time of several runs of a separate engine, so that no state of the session changes.
Result<double> measure_device(Device device, const Graph& graph, SessionOptions options,
                              const Registry& registry, const Bindings& sizes) {
  options.device = device;
  options.profile = options.keep_all_values = false;
  if (device == Device::cpu) options.gpu = {};
  HG_TRY_ASSIGN(const std::unique_ptr<Engine> engine, Engine::create(graph, options, registry));
  HG_TRY_ASSIGN(const std::vector<TensorData> zeros, engine->give_zeros(sizes));
  HG_TRY(engine->plan(sizes.all()));
  return engine->least_ms(kMostDeviceRuns, kMostDeviceMs);
}

uint64_t key_of(const Graph& graph, const SessionOptions& options, const Bindings& sizes) {
  std::string all = graph.text();
  for (const auto& [symbol, value] : sizes.all()) all += str_cat(symbol, "=", value, ";");
  all +=
      str_cat(options.parallel_for.run != nullptr ? options.parallel_for.threads : options.threads);
  return checksum_of(std::as_bytes(std::span(all)));
}

std::string milliseconds(double ms) {
  const auto micros = static_cast<int64_t>(ms * 1000 + 0.5);
  return str_cat(micros / 1000, ".", micros / 100 % 10, micros / 10 % 10, " ms");
}

}  // namespace

DeviceChoice choose_device(const Graph& graph, const SessionOptions& options,
                           const Registry& registry, const Bindings& sizes) {
  MeasuredTimes& measured = backend_of(options.gpu).records().measured;
  const std::string& name = options.gpu.info().name;
  const uint64_t key = key_of(graph, options, sizes);
  std::optional<DeviceTimes> times = measured.find(key);
  if (!times) {
    const Result<double> cpu = measure_device(Device::cpu, graph, options, registry, sizes);
    const Result<double> gpu = measure_device(Device::vulkan, graph, options, registry, sizes);
    if (!gpu.ok())
      return {Device::cpu, str_cat("on the CPU: ", name, ": ", gpu.status().message())};
    if (!cpu.ok())
      return {Device::cpu, str_cat("on the CPU, not measured: ", cpu.status().message())};
    times = {*cpu, *gpu};
    measured.note(key, *times);
  }
  const bool is_gpu = times->gpu_ms < times->cpu_ms;
  return {is_gpu ? Device::vulkan : Device::cpu,
          str_cat("on ", is_gpu ? name : "the CPU", ": measured ", milliseconds(times->cpu_ms),
                  " on the CPU, ", milliseconds(times->gpu_ms), " on ", name)};
}

}  // namespace hg
