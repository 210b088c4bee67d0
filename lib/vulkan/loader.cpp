// SPDX-License-Identifier: Apache-2.0
#include "lib/vulkan/loader.h"

#include "lib/platform/shared_library.h"

namespace hg::vulkan {

Instance::~Instance() {
  if (handle != VK_NULL_HANDLE) DestroyInstance(handle, nullptr);
  if (library != nullptr) close_shared_library(library);
}

Status failure(VkResult result, std::string_view what) {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return out_of_memory("Vulkan: ", what, ": the host is out of memory");
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
      return out_of_memory("Vulkan: ", what, ": the device is out of memory");
    case VK_ERROR_DEVICE_LOST:
      return Status(Code::device_lost, str_cat("Vulkan: ", what, ": the device is lost"));
    default:
      return internal_error("Vulkan: ", what, " failed with code ", static_cast<int64_t>(result));
  }
}

Result<std::shared_ptr<Instance>> open_instance() {
  auto instance = std::make_shared<Instance>();
  for (const char* file :
       {"libvulkan.so.1", "libvulkan.so", "vulkan-1.dll", "libvulkan.dylib", "libMoltenVK.dylib"})
    if (instance->library == nullptr) instance->library = open_shared_library(file);
  if (instance->library == nullptr)
    return unsupported("there is no Vulkan loader (libvulkan.so.1) on this machine");
  const auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(
      find_function(instance->library, "vkGetInstanceProcAddr"));
  if (get == nullptr) return unsupported("the Vulkan loader has no vkGetInstanceProcAddr");
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"));
  const auto version =
      reinterpret_cast<PFN_vkEnumerateInstanceVersion>(get(nullptr, "vkEnumerateInstanceVersion"));
  uint32_t api = 0;
  if (create == nullptr || version == nullptr || version(&api) != VK_SUCCESS ||
      api < VK_API_VERSION_1_1)
    return unsupported("the Vulkan loader is older than Vulkan 1.1");
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pEngineName = "hologram";
  application.apiVersion = api < VK_API_VERSION_1_2 ? VK_API_VERSION_1_1 : VK_API_VERSION_1_2;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  const VkResult created = create(&info, nullptr, &instance->handle);
  if (created != VK_SUCCESS) {
    instance->handle = VK_NULL_HANDLE;
    if (created == VK_ERROR_INCOMPATIBLE_DRIVER)
      return unsupported("there is no Vulkan driver on this machine");
    return failure(created, "vkCreateInstance");
  }
#define HG_VK_LOAD(name)                                                              \
  instance->name = reinterpret_cast<PFN_vk##name>(get(instance->handle, "vk" #name)); \
  if (instance->name == nullptr) return unsupported("the Vulkan driver has no vk" #name);
  HG_VK_INSTANCE_FUNCTIONS(HG_VK_LOAD)
#undef HG_VK_LOAD
  instance->GetPhysicalDeviceCooperativeMatrixPropertiesNV =
      reinterpret_cast<PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesNV>(
          get(instance->handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesNV"));
  return instance;
}

Status DeviceFunctions::load(const Instance& instance, VkDevice device) {
#define HG_VK_LOAD(name)                                                                 \
  name = reinterpret_cast<PFN_vk##name>(instance.GetDeviceProcAddr(device, "vk" #name)); \
  if (name == nullptr) return unsupported("the Vulkan device has no vk" #name);
  HG_VK_DEVICE_FUNCTIONS(HG_VK_LOAD)
#undef HG_VK_LOAD
  return {};
}

}  // namespace hg::vulkan
