// SPDX-License-Identifier: Apache-2.0
#include "lib/vulkan/device.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace hg::vulkan {
namespace {

constexpr uint64_t kNoLimit = ~uint64_t{0};

// The device that the host requested.
Result<Found> choose(const std::vector<Found>& devices, const std::string& wanted) {
  if (devices.empty())
    return unsupported("there is no Vulkan driver of version 1.1 on this machine");
  std::string names;
  for (const Found& device : devices)
    names += str_cat(names.empty() ? "" : ", ", "'", device.info.name, "'");
  if (wanted.empty()) {
    const Found* best = nullptr;
    for (const Found& device : devices)
      if (device.info.type != DeviceInfo::Type::software &&
          (best == nullptr || device.info.type < best->info.type))
        best = &device;
    if (best != nullptr) return *best;
    return unsupported("there is no GPU; a software device is used only when it is named: ", names);
  }
  int index = -1;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), index);
  for (const Found& device : devices) {
    const bool is_index = error == std::errc() && end == wanted.data() + wanted.size();
    if (is_index ? device.info.index == index : device.info.name.find(wanted) != std::string::npos)
      return device;
  }
  return not_found("there is no Vulkan device '", wanted, "'; there are ", names);
}

}  // namespace

Buffer::~Buffer() {
  const DeviceFunctions& vk = device_->vk();
  if (buffer_ != VK_NULL_HANDLE) vk.DestroyBuffer(device_->handle(), buffer_, nullptr);
  if (memory_ != VK_NULL_HANDLE) vk.FreeMemory(device_->handle(), memory_, nullptr);
}

Result<std::shared_ptr<Device>> Device::open(const GpuOptions& options,
                                             void (*change)(DeviceFunctions&)) {
  HG_TRY_ASSIGN(std::shared_ptr<Instance> instance, open_instance());
  HG_TRY_ASSIGN(const Found found, choose(find_devices(*instance), options.name));
  auto device = std::make_shared<Device>();
  device->instance_ = std::move(instance);
  device->info_ = found.info;
  HG_TRY(device->create(options, found.handle, change));
  return device;
}

Status Device::create(const GpuOptions& options, VkPhysicalDevice physical,
                      void (*change)(DeviceFunctions&)) {
  instance_->GetPhysicalDeviceProperties(physical, &properties_);
  instance_->GetPhysicalDeviceMemoryProperties(physical, &memory_);
  uint32_t count = 0;
  instance_->GetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  instance_->GetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
  queue_family_ = count;
  for (uint32_t i = 0; i < count; ++i)
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) && queue_family_ == count)
      queue_family_ = i;
  if (queue_family_ == count) return unsupported("'", info_.name, "' has no compute queue");

  const float priority = 1;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = queue_family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkPhysicalDevice16BitStorageFeatures storage_16{};
  storage_16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
  storage_16.storageBuffer16BitAccess = info_.storage_16;
  VkPhysicalDevice8BitStorageFeatures storage_8{};
  storage_8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
  storage_8.storageBuffer8BitAccess = VK_TRUE;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.features.shaderFloat64 = info_.f64;
  features.features.shaderInt64 = info_.i64;
  features.pNext = &storage_16;
  std::vector<const char*> extensions;
  if (info_.storage_8) {
    storage_16.pNext = &storage_8;
    if (properties_.apiVersion < VK_API_VERSION_1_2)
      extensions = {VK_KHR_8BIT_STORAGE_EXTENSION_NAME,
                    VK_KHR_STORAGE_BUFFER_STORAGE_CLASS_EXTENSION_NAME};
  }
  VkPhysicalDeviceShaderFloat16Int8Features small{};
  small.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
  small.shaderFloat16 = VK_TRUE;
  VkPhysicalDeviceVulkanMemoryModelFeatures memory_model{};
  memory_model.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES;
  memory_model.pNext = &small;
  memory_model.vulkanMemoryModel = VK_TRUE;
  VkPhysicalDeviceCooperativeMatrixFeaturesNV cooperative{};
  cooperative.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV;
  cooperative.pNext = &memory_model;
  cooperative.cooperativeMatrix = VK_TRUE;
  if (info_.cooperative_matrix) {
    small.pNext = features.pNext;
    features.pNext = &cooperative;
    extensions.push_back(VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME);
  }
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{};
  dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
  dot.pNext = features.pNext;
  dot.shaderIntegerDotProduct = VK_TRUE;
  if (info_.integer_dot) {
    features.pNext = &dot;
    extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  }
  VkDeviceCreateInfo create{};
  create.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  create.pNext = &features;
  create.queueCreateInfoCount = 1;
  create.pQueueCreateInfos = &queue;
  create.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  create.ppEnabledExtensionNames = extensions.data();
  HG_VK_TRY(instance_->CreateDevice(physical, &create, nullptr, &device_), "vkCreateDevice");
  HG_TRY(vk_.load(*instance_, device_));
  if (change != nullptr) change(vk_);
  vk_.GetDeviceQueue(device_, queue_family_, 0, &queue_);
  HG_TRY(create_cache(options.cache));

  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = queue_family_;
  HG_VK_TRY(vk_.CreateCommandPool(device_, &pool, nullptr, &transfer_pool_), "vkCreateCommandPool");
  VkCommandBufferAllocateInfo commands{};
  commands.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  commands.commandPool = transfer_pool_;
  commands.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  commands.commandBufferCount = 1;
  HG_VK_TRY(vk_.AllocateCommandBuffers(device_, &commands, &transfer_commands_),
            "vkAllocateCommandBuffers");
  VkFenceCreateInfo fence{};
  fence.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  HG_VK_TRY(vk_.CreateFence(device_, &fence, nullptr, &transfer_fence_), "vkCreateFence");
  return {};
}

Device::~Device() {
  if (device_ == VK_NULL_HANDLE) return;
  if (vk_.DestroyDevice == nullptr) return;
  vk_.DeviceWaitIdle(device_);
  for (const auto& [key, handle] : pipelines_) vk_.DestroyPipeline(device_, handle, nullptr);
  for (const auto& [bindings, layout] : layouts_) {
    vk_.DestroyPipelineLayout(device_, layout.layout, nullptr);
    vk_.DestroyDescriptorSetLayout(device_, layout.sets, nullptr);
  }
  if (cache_ != VK_NULL_HANDLE) vk_.DestroyPipelineCache(device_, cache_, nullptr);
  if (transfer_fence_ != VK_NULL_HANDLE) vk_.DestroyFence(device_, transfer_fence_, nullptr);
  if (transfer_pool_ != VK_NULL_HANDLE) vk_.DestroyCommandPool(device_, transfer_pool_, nullptr);
  vk_.DestroyDevice(device_, nullptr);
}

GpuCounters Device::counters() const {
  return {counters_.uploads,        counters_.upload_bytes, counters_.downloads,
          counters_.download_bytes, counters_.dispatches,   counters_.submits,
          counters_.pipelines};
}

// -- Memory ---------------------------------------------------------------------------------------

Result<std::shared_ptr<Buffer>> Device::buffer(int64_t bytes, Use use) {
  // A whole number of words, because shaders read words. A binding may extend to its alignment.
  const int64_t padded = (std::max<int64_t>(bytes, 1) + 255) / 256 * 256;
  auto result = std::make_shared<Buffer>(*this);
  result->device_ = weak_from_this().lock();
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = static_cast<VkDeviceSize>(padded);
  info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
               VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  HG_VK_TRY(vk_.CreateBuffer(device_, &info, nullptr, &result->buffer_), "vkCreateBuffer");
  VkMemoryRequirements needs;
  vk_.GetBufferMemoryRequirements(device_, result->buffer_, &needs);
  constexpr VkMemoryPropertyFlags kHost =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const VkMemoryPropertyFlags wishes[] = {
      use == Use::storage ? VkMemoryPropertyFlags(VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)
                          : kHost | VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
      use == Use::storage ? VkMemoryPropertyFlags(0) : kHost};
  uint32_t type = memory_.memoryTypeCount;
  for (const VkMemoryPropertyFlags wish : wishes)
    for (uint32_t i = 0; i < memory_.memoryTypeCount && type == memory_.memoryTypeCount; ++i)
      if (((needs.memoryTypeBits >> i) & 1u) &&
          (memory_.memoryTypes[i].propertyFlags & wish) == wish)
        type = i;
  if (type == memory_.memoryTypeCount) return internal_error("Vulkan: no memory type for a buffer");
  VkMemoryAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocate.allocationSize = needs.size;
  allocate.memoryTypeIndex = type;
  const VkResult allocated = vk_.AllocateMemory(device_, &allocate, nullptr, &result->memory_);
  if (allocated != VK_SUCCESS) {
    const Status why = failure(allocated, "vkAllocateMemory");
    return Status(why.code(), str_cat(why.message(), "; ", padded, " bytes were asked for, '",
                                      info_.name, "' has ", info_.memory_bytes));
  }
  HG_VK_TRY(vk_.BindBufferMemory(device_, result->buffer_, result->memory_, 0),
            "vkBindBufferMemory");
  if (use == Use::staging)
    HG_VK_TRY(vk_.MapMemory(device_, result->memory_, 0, VK_WHOLE_SIZE, 0, &result->mapped_),
              "vkMapMemory");
  result->bytes_ = padded;
  return result;
}

Result<std::shared_ptr<DeviceMemory>> Device::allocate(int64_t bytes) {
  HG_TRY_ASSIGN(std::shared_ptr<Buffer> result, buffer(bytes, Use::storage));
  return std::shared_ptr<DeviceMemory>(std::move(result));
}

Status Device::transfer(const DeviceSpan& device, std::byte* host, bool up) {
  constexpr int64_t kPiece = int64_t{1} << 24;
  const std::lock_guard<std::mutex> lock(transfer_mutex_);
  HG_TRY_ASSIGN(const std::shared_ptr<Buffer> staging,
                buffer(std::min(device.bytes, kPiece), Use::staging));
  const VkBuffer memory = static_cast<Buffer*>(device.memory.get())->handle();
  for (int64_t at = 0; at < device.bytes; at += kPiece) {
    const int64_t bytes = std::min(kPiece, device.bytes - at);
    if (up) std::memcpy(staging->mapped(), host + at, bytes);
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    HG_VK_TRY(vk_.BeginCommandBuffer(transfer_commands_, &begin), "vkBeginCommandBuffer");
    const auto there = static_cast<VkDeviceSize>(device.offset + at);
    const VkBufferCopy copy{up ? 0 : there, up ? there : 0, static_cast<VkDeviceSize>(bytes)};
    vk_.CmdCopyBuffer(transfer_commands_, up ? staging->handle() : memory,
                      up ? memory : staging->handle(), 1, &copy);
    HG_VK_TRY(vk_.EndCommandBuffer(transfer_commands_), "vkEndCommandBuffer");
    HG_TRY(submit(transfer_commands_, transfer_fence_));
    if (!up) std::memcpy(host + at, staging->mapped(), bytes);
  }
  (up ? counters_.uploads : counters_.downloads) += 1;
  (up ? counters_.upload_bytes : counters_.download_bytes) += device.bytes;
  return {};
}

Status Device::upload(const DeviceSpan& to, const void* from) {
  if (to.bytes == 0) return {};
  return transfer(to, static_cast<std::byte*>(const_cast<void*>(from)), true);
}

Status Device::download(void* to, const DeviceSpan& from) {
  if (from.bytes == 0) return {};
  return transfer(from, static_cast<std::byte*>(to), false);
}

Status Device::submit(VkCommandBuffer commands, VkFence fence) {
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  if (is_lost_) return failure(VK_ERROR_DEVICE_LOST, "vkQueueSubmit");
  HG_VK_TRY(vk_.ResetFences(device_, 1, &fence), "vkResetFences");
  VkResult result = VK_SUCCESS;
  {
    const std::lock_guard<std::mutex> lock(queue_mutex_);
    result = vk_.QueueSubmit(queue_, 1, &info, fence);
  }
  if (result != VK_SUCCESS) return submit_failed(result, "vkQueueSubmit");
  counters_.submits += 1;
  result = vk_.WaitForFences(device_, 1, &fence, VK_TRUE, kNoLimit);
  return result == VK_SUCCESS ? Status() : submit_failed(result, "vkWaitForFences");
}

// Submitted work may still run. Nothing that it uses may be freed or written before it ends.
Status Device::submit_failed(VkResult result, std::string_view what) {
  const std::lock_guard<std::mutex> lock(queue_mutex_);
  if (result == VK_ERROR_DEVICE_LOST || vk_.DeviceWaitIdle(device_) != VK_SUCCESS) is_lost_ = true;
  return failure(result, what);
}

}  // namespace hg::vulkan

namespace hg {

Result<std::shared_ptr<Backend>> open_vulkan(const GpuOptions& options) {
  HG_TRY_ASSIGN(std::shared_ptr<vulkan::Device> device, vulkan::Device::open(options));
  return std::shared_ptr<Backend>(std::move(device));
}

}  // namespace hg
