// SPDX-License-Identifier: Apache-2.0
// The executors that calls from Python run on.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "hg/eager.h"
#include "python/src/tensors.h"

namespace hg::python {

namespace nb = nanobind;

// An executor that threads use in turn.
class LockedExecutor {
 public:
  // With `follows`, calls run on the device of their tensors.
  LockedExecutor(const std::string& backend, int threads, uint64_t seed,
                 const std::string& gpu_name, bool follows, const Gpu& gpu = {});

  // The executor of the innermost `with hg.Executor(...)`, or this thread's own, which runs on the
  // device of its tensors and otherwise on the CPU. A Python object that holds an executor.
  static nb::object current();
  // The executor that all calls share on tensors of a device outside of `with`.
  static LockedExecutor& on(const Gpu& gpu);
  // Inside a custom kernel, calls have another executor, because this one is busy.
  static void enter_kernel();
  static void leave_kernel();

  nb::object call(const std::string& op, const nb::list& inputs, const nb::dict& attrs,
                  nb::handle out);
  // An op of one output on the CPU, on memory of the host. `attrs` has all attributes in the order
  // of the signature. A short call keeps the GIL. Without a result if another call uses the
  // executor, or if it is on a device.
  std::optional<Result<Array>> call_at_once(std::string_view op, std::span<const Operand> inputs,
                                            std::span<const Argument> attrs, bool is_short);

  void close();
  void seed(uint64_t seed);
  std::string device() const { return std::string(to_string(executor_->device())); }
  std::vector<std::string> notes() const { return executor_->notes(); }
  nb::dict counters() const;
  const Gpu& gpu() const { return executor_->gpu(); }

 private:
  Result<std::vector<Array>> run(std::string_view op, std::span<const Operand> inputs,
                                 const NamedAttrs& attrs, std::vector<Array>& outs);
  const bool follows_;
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_;  // of the lock, while a call runs
  std::optional<ExecutorBase> executor_;
};

// As LockedExecutor::call, without `out`, for the usual call: an op of one output of tensors in
// memory of the host, on the CPU. Returns nothing if it is another call.
nb::object compute_at_once(LockedExecutor& executor, const std::string& op, const nb::list& inputs,
                           const nb::dict& attrs);

// All attributes of an op in the order of its signature: those given, and defaults. `lists` holds
// what the arguments borrow.
Result<std::vector<Argument>> arguments_of(const Op& op, const NamedAttrs& given,
                                           std::deque<std::vector<int64_t>>& lists);

}  // namespace hg::python
