// SPDX-License-Identifier: Apache-2.0
// Vulkan's functions, found at run time. Nothing links to a Vulkan library.
#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include <memory>

#include "hg/status.h"

namespace hg::vulkan {

#define HG_VK_INSTANCE_FUNCTIONS(F)         \
  F(DestroyInstance)                        \
  F(EnumeratePhysicalDevices)               \
  F(EnumerateDeviceExtensionProperties)     \
  F(GetPhysicalDeviceProperties)            \
  F(GetPhysicalDeviceProperties2)           \
  F(GetPhysicalDeviceFeatures2)             \
  F(GetPhysicalDeviceMemoryProperties)      \
  F(GetPhysicalDeviceQueueFamilyProperties) \
  F(CreateDevice)                           \
  F(GetDeviceProcAddr)

#define HG_VK_DEVICE_FUNCTIONS(F) \
  F(DestroyDevice)                \
  F(GetDeviceQueue)               \
  F(QueueSubmit)                  \
  F(DeviceWaitIdle)               \
  F(CreateBuffer)                 \
  F(DestroyBuffer)                \
  F(GetBufferMemoryRequirements)  \
  F(AllocateMemory)               \
  F(FreeMemory)                   \
  F(BindBufferMemory)             \
  F(MapMemory)                    \
  F(CreateShaderModule)           \
  F(DestroyShaderModule)          \
  F(CreateDescriptorSetLayout)    \
  F(DestroyDescriptorSetLayout)   \
  F(CreatePipelineLayout)         \
  F(DestroyPipelineLayout)        \
  F(CreatePipelineCache)          \
  F(DestroyPipelineCache)         \
  F(GetPipelineCacheData)         \
  F(CreateComputePipelines)       \
  F(DestroyPipeline)              \
  F(CreateDescriptorPool)         \
  F(DestroyDescriptorPool)        \
  F(AllocateDescriptorSets)       \
  F(UpdateDescriptorSets)         \
  F(CreateCommandPool)            \
  F(DestroyCommandPool)           \
  F(AllocateCommandBuffers)       \
  F(BeginCommandBuffer)           \
  F(EndCommandBuffer)             \
  F(CmdBindPipeline)              \
  F(CmdBindDescriptorSets)        \
  F(CmdPushConstants)             \
  F(CmdDispatch)                  \
  F(CmdCopyBuffer)                \
  F(CmdUpdateBuffer)              \
  F(CmdPipelineBarrier)           \
  F(CreateFence)                  \
  F(DestroyFence)                 \
  F(ResetFences)                  \
  F(WaitForFences)

// An instance; destroyed with its last user.
struct Instance {
  void* library = nullptr;
  VkInstance handle = VK_NULL_HANDLE;
#define HG_VK_MEMBER(name) PFN_vk##name name = nullptr;
  HG_VK_INSTANCE_FUNCTIONS(HG_VK_MEMBER)
  // Functions of extensions; null if no driver has the extension.
  HG_VK_MEMBER(GetPhysicalDeviceCooperativeMatrixPropertiesNV)

  Instance() = default;
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  ~Instance();
};

// The functions of one device.
struct DeviceFunctions {
  HG_VK_DEVICE_FUNCTIONS(HG_VK_MEMBER)
#undef HG_VK_MEMBER
  Status load(const Instance& instance, VkDevice device);
};

// Fails with `unsupported` without a loader, without a driver, or if the driver is older than
// Vulkan 1.1.
Result<std::shared_ptr<Instance>> open_instance();

// Converts a failed call to out_of_memory, device_lost or internal, with the name of the call.
Status failure(VkResult result, std::string_view what);

}  // namespace hg::vulkan

// Returns from the enclosing function if a Vulkan call fails.
#define HG_VK_TRY(call, what)                                                           \
  do {                                                                                  \
    const VkResult hg_vk_result_ = (call);                                              \
    if (hg_vk_result_ != VK_SUCCESS) return ::hg::vulkan::failure(hg_vk_result_, what); \
  } while (false)
