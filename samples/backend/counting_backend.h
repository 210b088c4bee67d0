// SPDX-License-Identifier: Apache-2.0
// A device with memory of its own that counts what it is asked to do and computes with the
// library's CPU kernels. A backend for a remote accelerator has the same functions: allocate,
// upload and download become messages, and a Recording becomes a program that the accelerator
// keeps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hg/backend.h"

namespace sample {

struct Counts {
  std::atomic<int64_t> allocations = 0, live_bytes = 0;
  std::atomic<int64_t> uploads = 0, upload_bytes = 0, downloads = 0, download_bytes = 0;
  std::atomic<int64_t> calls = 0, runs = 0;
};

// The device's memory. The library never sees its address.
class Memory final : public hg::DeviceMemory {
 public:
  Memory(const hg::Backend& owner, std::shared_ptr<Counts> counts, int64_t bytes)
      : DeviceMemory(owner), counts_(std::move(counts)), bytes_(bytes) {
    data_ = static_cast<std::byte*>(
        ::operator new(static_cast<size_t>(bytes), std::align_val_t(64), std::nothrow));
    if (data_ == nullptr) return;
    std::memset(data_, 0xff, static_cast<size_t>(bytes));  // NaN, so that no one relies on zeros
    counts_->allocations += 1;
    counts_->live_bytes += bytes;
  }
  ~Memory() override {
    if (data_ == nullptr) return;
    ::operator delete(data_, std::align_val_t(64));
    counts_->live_bytes -= bytes_;
  }
  int64_t bytes() const override { return bytes_; }
  std::byte* data() const { return data_; }

 private:
  std::shared_ptr<Counts> counts_;
  int64_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

inline std::byte* address(const hg::DeviceSpan& span) {
  if (span.memory == nullptr) return nullptr;
  return static_cast<const Memory&>(*span.memory).data() + span.offset;
}

inline void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
}

// What prepare stores of a call: the CPU kernel, its state, and the tensors without addresses.
struct Call {
  const hg::KernelDef* kernel = nullptr;
  std::shared_ptr<void> state;
  std::vector<hg::Tensor> inputs, outputs;
};

inline const hg::KernelDef* kernel_for(const hg::PrepareContext& c) {
  const hg::Registry& registry = hg::Registry::built_in();
  for (const hg::KernelDef* kernel : registry.kernels(c.op().name(), hg::Device::cpu))
    if (kernel->measure == nullptr && (kernel->accepts == nullptr || kernel->accepts(c)))
      return kernel;
  return nullptr;
}

inline bool accepts(const hg::PrepareContext& c) { return kernel_for(c) != nullptr; }

inline hg::Status prepare(hg::PrepareContext& c) {
  Call call{kernel_for(c), nullptr, {}, {}};
  if (call.kernel == nullptr) return c.fail("the CPU has no kernel for this call");
  hg::PrepareContext own = c;  // stores the state and the workspace of that kernel
  if (call.kernel->prepare != nullptr) HG_TRY(call.kernel->prepare(own));
  c.set_workspace(own.workspace());
  call.state = own.shared_state();
  call.inputs.assign(c.inputs().begin(), c.inputs().end());
  call.outputs.assign(c.outputs().begin(), c.outputs().end());
  c.make_state(std::move(call));
  return {};
}

class CountingRecording final : public hg::Recording {
 public:
  CountingRecording(std::span<const hg::DeviceWork> work, std::shared_ptr<Counts> counts)
      : work_(work.begin(), work.end()), counts_(std::move(counts)) {
    for (hg::DeviceWork& step : work_) step.label = labels_.emplace_back(step.label);
  }

  hg::Status run(std::span<void* const> host) override {
    counts_->runs += 1;
    size_t transfer = 0;
    for (const hg::DeviceWork& step : work_) {
      switch (step.kind) {
        case hg::DeviceWork::Kind::upload:
          counts_->uploads += 1;
          counts_->upload_bytes += step.outputs[0].bytes;
          copy_bytes(address(step.outputs[0]), host[transfer++], step.outputs[0].bytes);
          break;
        case hg::DeviceWork::Kind::download:
          counts_->downloads += 1;
          counts_->download_bytes += step.inputs[0].bytes;
          copy_bytes(host[transfer++], address(step.inputs[0]), step.inputs[0].bytes);
          break;
        case hg::DeviceWork::Kind::copy:
          copy_bytes(address(step.outputs[0]), address(step.inputs[0]), step.inputs[0].bytes);
          break;
        case hg::DeviceWork::Kind::kernel:
          HG_TRY(compute(step));
          break;
      }
    }
    return {};
  }

 private:
  hg::Status compute(const hg::DeviceWork& step) {
    counts_->calls += 1;
    const Call& call = *static_cast<const Call*>(step.state);
    std::vector<hg::Tensor> inputs = call.inputs, outputs = call.outputs;
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i].data = address(step.inputs[i]);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].data = address(step.outputs[i]);
    const hg::ParallelFor one_thread;
    const hg::RandomState random;
    std::atomic<const char*> error = nullptr;
    hg::RunContext c;
    c.inputs = inputs;
    c.outputs = outputs;
    c.scratch = address(step.workspace);
    c.prepared = call.state.get();
    c.parallel = &one_thread;
    c.error = &error;
    c.random = &random;
    call.kernel->run(c);
    if (error != nullptr) return hg::invalid_argument(step.label, ": ", error.load());
    return {};
  }

  std::vector<hg::DeviceWork> work_;
  std::deque<std::string> labels_;
  std::shared_ptr<Counts> counts_;
};

class CountingBackend : public hg::Backend {
 public:
  // `missing`: ops that the device does not have.
  explicit CountingBackend(const std::set<std::string, std::less<>>& missing = {}) {
    info_.name = "counting";
    info_.driver = "1";
    info_.max_binding_bytes = int64_t{1} << 40;
    info_.binding_alignment = 64;
    const hg::Registry& registry = hg::Registry::built_in();
    for (const hg::Op* op : registry.ops()) {
      if (missing.contains(op->name()) || registry.kernels(op->name(), hg::Device::cpu).empty())
        continue;
      rows_.push_back({.op = op->name(),
                       .device = hg::Device::vulkan,
                       .name = "counting",
                       .accepts = accepts,
                       .prepare = prepare,
                       .strided = op->name() == "contiguous" ? hg::kAllStrided : 0});
      by_op_[op] = &rows_.back();
    }
  }

  const hg::DeviceInfo& info() const override { return info_; }

  hg::GpuCounters counters() const override {
    return {.uploads = counts_->uploads,
            .upload_bytes = counts_->upload_bytes,
            .downloads = counts_->downloads,
            .download_bytes = counts_->download_bytes,
            .dispatches = counts_->calls,
            .submits = counts_->runs};
  }

  hg::Result<std::shared_ptr<hg::DeviceMemory>> allocate(int64_t bytes) override {
    auto memory = std::make_shared<Memory>(*this, counts_, bytes);
    if (memory->data() == nullptr)
      return hg::Status(hg::Code::out_of_memory, hg::str_cat("counting: no ", bytes, " bytes"));
    return std::shared_ptr<hg::DeviceMemory>(std::move(memory));
  }

  hg::Status upload(const hg::DeviceSpan& to, const void* from) override {
    counts_->uploads += 1;
    counts_->upload_bytes += to.bytes;
    copy_bytes(address(to), from, to.bytes);
    return {};
  }

  hg::Status download(void* to, const hg::DeviceSpan& from) override {
    counts_->downloads += 1;
    counts_->download_bytes += from.bytes;
    copy_bytes(to, address(from), from.bytes);
    return {};
  }

  std::span<const hg::KernelDef* const> kernels(const hg::Registry&,
                                                const hg::Op& op) const override {
    const auto found = by_op_.find(&op);
    if (found == by_op_.end()) return {};
    return {&found->second, 1};
  }

  hg::Result<std::unique_ptr<hg::Recording>> record(std::span<const hg::DeviceWork> work,
                                                    hg::DeviceConstants&) override {
    return std::unique_ptr<hg::Recording>(std::make_unique<CountingRecording>(work, counts_));
  }

  const Counts& counts() const { return *counts_; }

 protected:
  hg::DeviceInfo info_;
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();  // outlives memory
  std::deque<hg::KernelDef> rows_;

 private:
  std::map<const hg::Op*, const hg::KernelDef*> by_op_;
};

}  // namespace sample
