// SPDX-License-Identifier: Apache-2.0
// The public side of executors.
#include "lib/eager/executor.h"

#include "lib/graph/access.h"
#include "lib/graph/border.h"

namespace hg {

Result<Device> parse_device(std::string_view name) {
  return or_no_memory([&]() -> Result<Device> {
    for (const Device device : {Device::automatic, Device::cpu, Device::vulkan})
      if (name == to_string(device)) return device;
    if (name == "automatic") return Device::automatic;
    return invalid_argument("there is no device '", name, "'; it is cpu, vulkan or automatic");
  });
}

ExecutorBase::ExecutorBase(std::unique_ptr<Body> body) : body_(std::move(body)) {}
ExecutorBase::ExecutorBase(ExecutorBase&&) noexcept = default;
ExecutorBase& ExecutorBase::operator=(ExecutorBase&&) noexcept = default;
ExecutorBase::~ExecutorBase() = default;

Result<ExecutorBase> ExecutorBase::create(const ExecutorOptions& options) {
  return or_no_memory([&]() -> Result<ExecutorBase> {
    HG_CHECK(options.threads >= 0, "threads is ", options.threads, "; it must not be negative");
    auto body = std::make_unique<Body>(options);
    body->registry = options.registry != nullptr ? options.registry : &Registry::built_in();
    SessionOptions& session = body->session;
    session.threads = options.threads;
    session.parallel_for = options.parallel_for;
    if (options.device != Device::cpu) {
      Result<Gpu> gpu =
          options.gpu ? Result<Gpu>(options.gpu) : Gpu::open({.name = options.gpu_name});
      if (gpu.ok()) {
        session.device = Device::vulkan;
        session.device_outputs = true;
        session.gpu = *std::move(gpu);
        body->notes.push_back(str_cat("ops run on ", session.gpu.info().name));
      } else if (options.device == Device::vulkan) {
        return gpu.status();
      } else {
        body->notes.push_back(str_cat("ops run on the CPU: ", gpu.status().message()));
      }
    }
    return ExecutorBase(std::move(body));
  });
}

Status ExecutorBase::Body::unknown_op(std::string_view op) const {
  Graph graph(*registry);
  graph.calls(op, std::span<const Value>());
  return graph.take_status();
}

Status ExecutorBase::run(std::string_view op, std::span<const Operand> inputs,
                         std::span<const Argument> attrs, std::span<Array> results, bool given) {
  return or_no_memory([&]() -> Status {
    HG_CHECK(body_ != nullptr && !body_->is_closed, op, ": the executor is closed");
    HG_TRY_ASSIGN(PlannedCall* const call, body_->planned(op, inputs, attrs));
    return body_->execute(op, *call, inputs, results, given);
  });
}

Result<Array> ExecutorBase::one(std::string_view op, std::span<const Operand> inputs,
                                std::span<const Argument> attrs) {
  Array result;
  HG_TRY(run(op, inputs, attrs, std::span(&result, 1), false));
  return result;
}

Result<std::vector<Array>> ExecutorBase::any(std::string_view op, std::span<const Operand> inputs,
                                             std::span<const Argument> attrs) {
  return or_no_memory([&]() -> Result<std::vector<Array>> {
    HG_CHECK(body_ != nullptr && !body_->is_closed, op, ": the executor is closed");
    HG_TRY_ASSIGN(PlannedCall* const call, body_->planned(op, inputs, attrs));
    std::vector<Array> results(call->outputs.size());
    HG_TRY(body_->execute(op, *call, inputs, results, false));
    return results;
  });
}

Result<Array> ExecutorBase::call(std::string_view op, std::span<const Operand> inputs,
                                 const NamedAttrs& attrs) {
  return or_no_memory([&]() -> Result<Array> {
    HG_TRY_ASSIGN(std::vector<Array> results, calls(op, inputs, attrs));
    HG_CHECK(results.size() == 1, op, " has ", static_cast<int64_t>(results.size()),
             " outputs; calls() returns them all");
    return std::move(results[0]);
  });
}

Result<std::vector<Array>> ExecutorBase::calls(std::string_view op, std::span<const Operand> inputs,
                                               const NamedAttrs& attrs) {
  return call_named(op, inputs, attrs, {});
}

// Without `outs`, results have memory of their own.
Result<std::vector<Array>> ExecutorBase::call_named(std::string_view op,
                                                    std::span<const Operand> inputs,
                                                    const NamedAttrs& attrs,
                                                    std::span<Array> outs) {
  return or_no_memory([&]() -> Result<std::vector<Array>> {
    HG_CHECK(body_ != nullptr && !body_->is_closed, op, ": the executor is closed");
    const Op* const found = body_->registry->find(op);
    if (found == nullptr) return body_->unknown_op(op);
    HG_TRY_ASSIGN(const std::vector<Attr> values, GraphAccess::normalize_attrs(*found, attrs));
    std::vector<std::vector<int64_t>> lists(values.size());
    std::vector<Argument> arguments;
    for (size_t i = 0; i < values.size(); ++i) {
      HG_TRY(GraphAccess::check_attr(*found, i, values[i]));
      HG_TRY_ASSIGN(Argument argument,
                    Argument::of(found->signature.attributes[i].name, values[i], lists[i]));
      arguments.push_back(argument);
    }
    if (outs.empty()) return any(op, inputs, arguments);
    HG_TRY(run(op, inputs, arguments, outs, true));
    return std::vector<Array>(outs.begin(), outs.end());
  });
}

void ExecutorBase::close() {
  if (body_ == nullptr) return;
  body_->cache.clear();
  body_->device_numbers.clear();
  body_->is_closed = true;
}

void ExecutorBase::seed(uint64_t seed) {
  if (body_ == nullptr) return;
  body_->options.seed = seed;
  body_->draws = 0;
}

Device ExecutorBase::device() const {
  return body_ != nullptr ? body_->session.device : Device::cpu;
}

const Gpu& ExecutorBase::gpu() const {
  static const Gpu kNone;
  return body_ != nullptr ? body_->session.gpu : kNone;
}

const std::vector<std::string>& ExecutorBase::notes() const {
  static const std::vector<std::string> kNone;
  return body_ != nullptr ? body_->notes : kNone;
}

ExecutorCounters ExecutorBase::counters() const {
  if (body_ == nullptr) return {};
  const LruIndex::Counters& counters = body_->cache.counters();
  return {.plans = counters.added, .hits = counters.hits, .evicted = counters.evicted};
}

Result<Array> IntoBase::call(std::string_view op, std::span<const Operand> inputs,
                             const NamedAttrs& attrs) {
  HG_TRY_ASSIGN(std::vector<Array> results, executor_->call_named(op, inputs, attrs, outs_));
  return std::move(results[0]);
}

Result<Array> IntoBase::one(std::string_view op, std::span<const Operand> inputs,
                            std::span<const Argument> attrs) {
  HG_TRY(executor_->run(op, inputs, attrs, outs_, true));
  return outs_[0];
}

Result<std::vector<Array>> IntoBase::any(std::string_view op, std::span<const Operand> inputs,
                                         std::span<const Argument> attrs) {
  HG_TRY(executor_->run(op, inputs, attrs, outs_, true));
  return std::vector<Array>(outs_.begin(), outs_.end());
}

}  // namespace hg
