// SPDX-License-Identifier: Apache-2.0
// One open Vulkan device: memory, transfers, pipelines and a queue. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "lib/device/backend.h"
#include "lib/vulkan/commands.h"
#include "lib/vulkan/loader.h"

namespace hg::vulkan {

class Device;

// A buffer with its own memory. Mapped buffers are coherent.
class Buffer final : public DeviceMemory {
 public:
  explicit Buffer(const Backend& owner) : DeviceMemory(owner) {}
  ~Buffer() override;
  int64_t bytes() const override { return bytes_; }
  VkBuffer handle() const { return buffer_; }
  std::byte* mapped() const { return static_cast<std::byte*>(mapped_); }

 private:
  friend class Device;
  std::shared_ptr<Device> device_;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  void* mapped_ = nullptr;
  int64_t bytes_ = 0;
};

struct Pipeline {
  VkPipeline handle = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkDescriptorSetLayout sets = VK_NULL_HANDLE;
};

struct Counters {
  std::atomic<int64_t> uploads{0}, upload_bytes{0}, downloads{0}, download_bytes{0}, dispatches{0},
      submits{0}, pipelines{0};
};

class Device final : public Backend, public std::enable_shared_from_this<Device> {
 public:
  // `change` may replace functions of the device: tests use it to make calls fail.
  static Result<std::shared_ptr<Device>> open(const GpuOptions& options,
                                              void (*change)(DeviceFunctions&) = nullptr);
  ~Device() override;

  const DeviceInfo& info() const override { return info_; }
  GpuCounters counters() const override;
  Result<std::shared_ptr<DeviceMemory>> allocate(int64_t bytes) override;
  Status upload(const DeviceSpan& to, const void* from) override;
  Status download(void* to, const DeviceSpan& from) override;
  std::span<const KernelDef* const> kernels(const Registry& registry, const Op& op) const override {
    return registry.kernels(op.name(), hg::Device::vulkan);
  }
  Result<std::unique_ptr<Recording>> record(std::span<const DeviceWork> work,
                                            DeviceConstants& constants) override;
  Result<std::vector<std::byte>> cache() override;

  enum class Use : uint8_t { storage, staging };
  Result<std::shared_ptr<Buffer>> buffer(int64_t bytes, Use use);
  Result<Pipeline> pipeline(const Dispatch& dispatch);
  // Submits and waits. One submission at a time uses the queue. After the device is lost, nothing
  // is submitted.
  Status submit(VkCommandBuffer commands, VkFence fence);
  const DeviceFunctions& vk() const { return vk_; }
  VkDevice handle() const { return device_; }
  uint32_t queue_family() const { return queue_family_; }
  Counters& count() { return counters_; }

 private:
  Status create(const GpuOptions& options, VkPhysicalDevice physical,
                void (*change)(DeviceFunctions&));
  Status submit_failed(VkResult result, std::string_view what);
  Status create_cache(std::span<const std::byte> blob);
  Result<Pipeline> layout_of(size_t bindings);
  Status transfer(const DeviceSpan& device, std::byte* host, bool up);

  std::shared_ptr<Instance> instance_;
  DeviceFunctions vk_;
  DeviceInfo info_;
  VkPhysicalDeviceProperties properties_{};
  VkPhysicalDeviceMemoryProperties memory_{};
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  uint32_t queue_family_ = 0;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::mutex queue_mutex_, pipeline_mutex_, transfer_mutex_;
  std::map<size_t, Pipeline> layouts_;           // by the number of bindings
  std::map<std::string, VkPipeline> pipelines_;  // by code and constants
  VkCommandPool transfer_pool_ = VK_NULL_HANDLE;
  VkCommandBuffer transfer_commands_ = VK_NULL_HANDLE;
  VkFence transfer_fence_ = VK_NULL_HANDLE;
  Counters counters_;
  std::atomic<bool> is_lost_{false};
};

// The physical devices of an instance, with their entries in the public list.
struct Found {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  DeviceInfo info;
};
std::vector<Found> find_devices(const Instance& instance);

}  // namespace hg::vulkan
