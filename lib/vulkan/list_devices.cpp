// SPDX-License-Identifier: Apache-2.0
// Lists the devices and their capabilities.
#include <algorithm>

#include "lib/vulkan/device.h"

namespace hg::vulkan {
namespace {

DeviceInfo::Type type_of(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return DeviceInfo::Type::discrete;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return DeviceInfo::Type::integrated;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return DeviceInfo::Type::virtual_gpu;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return DeviceInfo::Type::software;
    default:
      return DeviceInfo::Type::other;
  }
}

// Whether its matrix units multiply 16 x 16 blocks of f16 and add in f32.
bool multiplies_pieces(const Instance& vk, VkPhysicalDevice device) {
  if (vk.GetPhysicalDeviceCooperativeMatrixPropertiesNV == nullptr) return false;
  uint32_t count = 0;
  vk.GetPhysicalDeviceCooperativeMatrixPropertiesNV(device, &count, nullptr);
  VkCooperativeMatrixPropertiesNV kind{};
  kind.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV;
  std::vector<VkCooperativeMatrixPropertiesNV> kinds(count, kind);
  vk.GetPhysicalDeviceCooperativeMatrixPropertiesNV(device, &count, kinds.data());
  return std::any_of(kinds.begin(), kinds.end(), [](const VkCooperativeMatrixPropertiesNV& k) {
    return k.MSize == 16 && k.NSize == 16 && k.KSize == 16 && k.scope == VK_SCOPE_SUBGROUP_NV &&
           k.AType == VK_COMPONENT_TYPE_FLOAT16_NV && k.BType == VK_COMPONENT_TYPE_FLOAT16_NV &&
           k.CType == VK_COMPONENT_TYPE_FLOAT32_NV && k.DType == VK_COMPONENT_TYPE_FLOAT32_NV;
  });
}

DeviceInfo describe(const Instance& vk, VkPhysicalDevice device,
                    const VkPhysicalDeviceProperties& p) {
  uint32_t count = 0;
  vk.EnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  vk.EnumerateDeviceExtensionProperties(device, nullptr, &count, extensions.data());
  const auto has = [&](std::string_view name) {
    return std::any_of(extensions.begin(), extensions.end(),
                       [&](const auto& extension) { return name == extension.extensionName; });
  };
  const bool is_1_2 = p.apiVersion >= VK_API_VERSION_1_2;

  VkPhysicalDevice16BitStorageFeatures storage_16{};
  storage_16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
  VkPhysicalDevice8BitStorageFeatures storage_8{};
  storage_8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
  VkPhysicalDeviceShaderFloat16Int8Features small{};
  small.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  const auto chain = [&](auto& next) {
    next.pNext = features.pNext;
    features.pNext = &next;
  };
  chain(storage_16);
  if (is_1_2 || has(VK_KHR_8BIT_STORAGE_EXTENSION_NAME)) chain(storage_8);
  if (is_1_2 || has(VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME)) chain(small);
  VkPhysicalDeviceVulkanMemoryModelFeatures memory_model{};
  memory_model.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES;
  VkPhysicalDeviceCooperativeMatrixFeaturesNV cooperative{};
  cooperative.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV;
  if (is_1_2) chain(memory_model);
  if (has(VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME)) chain(cooperative);
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{};
  dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
  if (has(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME)) chain(dot);
  vk.GetPhysicalDeviceFeatures2(device, &features);

  VkPhysicalDeviceSubgroupProperties subgroup{};
  subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
  VkPhysicalDeviceMaintenance3Properties maintenance{};
  maintenance.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES;
  maintenance.pNext = &subgroup;
  VkPhysicalDeviceDriverProperties driver{};
  driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
  driver.pNext = &maintenance;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  const bool names_driver = is_1_2 || has(VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME);
  properties.pNext = names_driver ? static_cast<void*>(&driver) : static_cast<void*>(&maintenance);
  vk.GetPhysicalDeviceProperties2(device, &properties);

  VkPhysicalDeviceMemoryProperties memory;
  vk.GetPhysicalDeviceMemoryProperties(device, &memory);

  DeviceInfo info;
  info.name = p.deviceName;
  info.type = type_of(p.deviceType);
  info.driver = names_driver ? str_cat(driver.driverName, " ", driver.driverInfo)
                             : str_cat("driver ", static_cast<int64_t>(p.driverVersion));
  for (uint32_t i = 0; i < memory.memoryHeapCount; ++i)
    if (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
      info.memory_bytes =
          std::max(info.memory_bytes, static_cast<int64_t>(memory.memoryHeaps[i].size));
  info.max_binding_bytes = p.limits.maxStorageBufferRange;
  info.max_allocation_bytes = static_cast<int64_t>(
      std::min<uint64_t>(maintenance.maxMemoryAllocationSize, uint64_t{1} << 62));
  info.max_bindings = static_cast<int>(std::min({p.limits.maxPerStageDescriptorStorageBuffers,
                                                 p.limits.maxDescriptorSetStorageBuffers, 64u}));
  info.max_workgroup = static_cast<int>(p.limits.maxComputeWorkGroupInvocations);
  info.max_shared_bytes = p.limits.maxComputeSharedMemorySize;
  info.max_groups = p.limits.maxComputeWorkGroupCount[0];
  info.binding_alignment =
      std::max<int64_t>(16, static_cast<int64_t>(p.limits.minStorageBufferOffsetAlignment));
  info.subgroup_size = static_cast<int>(subgroup.subgroupSize);
  // Sums over a subgroup, and broadcasts to all of it.
  constexpr VkSubgroupFeatureFlags kNeeded =
      VK_SUBGROUP_FEATURE_ARITHMETIC_BIT | VK_SUBGROUP_FEATURE_BALLOT_BIT;
  info.subgroup_arithmetic = (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
                             (subgroup.supportedOperations & kNeeded) == kNeeded;
  info.f64 = features.features.shaderFloat64;
  info.i64 = features.features.shaderInt64;
  info.storage_16 = storage_16.storageBuffer16BitAccess;
  info.storage_8 = storage_8.storageBuffer8BitAccess;
  info.f16 = small.shaderFloat16;
  info.i8 = small.shaderInt8;
  info.cooperative_matrix = cooperative.cooperativeMatrix && memory_model.vulkanMemoryModel &&
                            info.f16 && info.storage_16 && multiplies_pieces(vk, device);
  info.integer_dot = dot.shaderIntegerDotProduct;
  return info;
}

}  // namespace

std::vector<Found> find_devices(const Instance& instance) {
  uint32_t count = 0;
  instance.EnumeratePhysicalDevices(instance.handle, &count, nullptr);
  std::vector<VkPhysicalDevice> devices(count);
  if (count > 0) instance.EnumeratePhysicalDevices(instance.handle, &count, devices.data());
  devices.resize(count);
  std::vector<Found> found;
  for (VkPhysicalDevice device : devices) {
    VkPhysicalDeviceProperties properties;
    instance.GetPhysicalDeviceProperties(device, &properties);
    if (properties.apiVersion < VK_API_VERSION_1_1) continue;
    found.push_back({device, describe(instance, device, properties)});
    found.back().info.index = static_cast<int>(found.size()) - 1;
  }
  return found;
}

}  // namespace hg::vulkan

namespace hg {

Result<std::vector<DeviceInfo>> list_vulkan() {
  HG_TRY_ASSIGN(const std::shared_ptr<vulkan::Instance> instance, vulkan::open_instance());
  std::vector<DeviceInfo> infos;
  for (const vulkan::Found& device : vulkan::find_devices(*instance)) infos.push_back(device.info);
  if (infos.empty()) return unsupported("there is no Vulkan driver of version 1.1 on this machine");
  return infos;
}

}  // namespace hg
