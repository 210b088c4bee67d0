// SPDX-License-Identifier: Apache-2.0
// Pipelines, created once per shader and constants, and the cache that outlives the process.
#include <cstring>

#include "lib/graph/checksum.h"
#include "lib/vulkan/device.h"

namespace hg::vulkan {
namespace {

// Header of a cache blob, before the driver's data.
struct BlobHeader {
  char magic[8] = {'H', 'G', 'V', 'K', '0', '0', '0', '1'};
  uint32_t vendor = 0, device = 0, driver = 0, api = 0;
  uint64_t bytes = 0, checksum = 0;
};

BlobHeader header_for(const VkPhysicalDeviceProperties& p, const std::byte* data, size_t bytes) {
  BlobHeader header;
  header.vendor = p.vendorID;
  header.device = p.deviceID;
  header.driver = p.driverVersion;
  header.api = p.apiVersion;
  header.bytes = bytes;
  header.checksum = checksum_of({data, bytes});
  return header;
}

}  // namespace

Status Device::create_cache(std::span<const std::byte> blob) {
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  BlobHeader header;
  if (blob.size() > sizeof(header)) {
    const std::span<const std::byte> data = blob.subspan(sizeof(header));
    const BlobHeader expected = header_for(properties_, data.data(), data.size());
    if (std::memcmp(blob.data(), &expected, sizeof(header)) == 0) {
      info.initialDataSize = data.size();
      info.pInitialData = data.data();
    }
  }
  HG_VK_TRY(vk_.CreatePipelineCache(device_, &info, nullptr, &cache_), "vkCreatePipelineCache");
  return {};
}

Result<std::vector<std::byte>> Device::cache() {
  const std::lock_guard<std::mutex> lock(pipeline_mutex_);
  size_t bytes = 0;
  HG_VK_TRY(vk_.GetPipelineCacheData(device_, cache_, &bytes, nullptr), "vkGetPipelineCacheData");
  std::vector<std::byte> blob(sizeof(BlobHeader) + bytes);
  std::byte* const data = blob.data() + sizeof(BlobHeader);
  HG_VK_TRY(vk_.GetPipelineCacheData(device_, cache_, &bytes, data), "vkGetPipelineCacheData");
  blob.resize(sizeof(BlobHeader) + bytes);
  const BlobHeader header = header_for(properties_, data, bytes);
  std::memcpy(blob.data(), &header, sizeof(header));
  return blob;
}

// Bindings are storage buffers; the push constant is one word.
Result<Pipeline> Device::layout_of(size_t bindings) {
  if (const auto found = layouts_.find(bindings); found != layouts_.end()) return found->second;
  std::vector<VkDescriptorSetLayoutBinding> rows(bindings);
  for (size_t i = 0; i < bindings; ++i) {
    rows[i].binding = static_cast<uint32_t>(i);
    rows[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    rows[i].descriptorCount = 1;
    rows[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  }
  Pipeline layout;
  VkDescriptorSetLayoutCreateInfo sets{};
  sets.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  sets.bindingCount = static_cast<uint32_t>(bindings);
  sets.pBindings = rows.data();
  HG_VK_TRY(vk_.CreateDescriptorSetLayout(device_, &sets, nullptr, &layout.sets),
            "vkCreateDescriptorSetLayout");
  const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, 4};
  VkPipelineLayoutCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  info.setLayoutCount = 1;
  info.pSetLayouts = &layout.sets;
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &push;
  const VkResult made = vk_.CreatePipelineLayout(device_, &info, nullptr, &layout.layout);
  if (made != VK_SUCCESS) {
    vk_.DestroyDescriptorSetLayout(device_, layout.sets, nullptr);
    return failure(made, "vkCreatePipelineLayout");
  }
  layouts_[bindings] = layout;
  return layout;
}

Result<Pipeline> Device::pipeline(const Dispatch& dispatch) {
  const std::lock_guard<std::mutex> lock(pipeline_mutex_);
  HG_TRY_ASSIGN(Pipeline result, layout_of(dispatch.operands.size() + 1));
  const std::span<const uint32_t> code =
      dispatch.program != nullptr ? std::span<const uint32_t>(*dispatch.program) : dispatch.code;
  // Built-in code is identified by its address, a program by its words.
  std::string key;
  const auto append = [&](const void* data, size_t bytes) {
    key.append(static_cast<const char*>(data), bytes);
  };
  const uint64_t sizes[] = {dispatch.operands.size(), dispatch.constants.size()};
  append(sizes, sizeof(sizes));
  append(dispatch.constants.data(), dispatch.constants.size() * 4);
  const uint32_t* const address = code.data();
  if (dispatch.program != nullptr)
    append(code.data(), code.size_bytes());
  else
    append(&address, sizeof(address));
  if (const auto found = pipelines_.find(key); found != pipelines_.end()) {
    result.handle = found->second;
    return result;
  }
  VkShaderModuleCreateInfo module_info{};
  module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  module_info.codeSize = code.size_bytes();
  module_info.pCode = code.data();
  VkShaderModule module = VK_NULL_HANDLE;
  HG_VK_TRY(vk_.CreateShaderModule(device_, &module_info, nullptr, &module),
            "vkCreateShaderModule");
  std::vector<VkSpecializationMapEntry> entries;
  for (uint32_t i = 0; i < dispatch.constants.size(); ++i) entries.push_back({i, 4 * i, 4});
  const VkSpecializationInfo constants{static_cast<uint32_t>(entries.size()), entries.data(),
                                       4 * dispatch.constants.size(), dispatch.constants.data()};
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &constants;
  info.layout = result.layout;
  const VkResult made =
      vk_.CreateComputePipelines(device_, cache_, 1, &info, nullptr, &result.handle);
  vk_.DestroyShaderModule(device_, module, nullptr);
  if (made != VK_SUCCESS) return failure(made, "vkCreateComputePipelines");
  counters_.pipelines += 1;
  pipelines_[key] = result.handle;
  return result;
}

}  // namespace hg::vulkan
