// SPDX-License-Identifier: Apache-2.0
// Device steps as one command buffer: recorded once, submitted in each run of the plan. Inserts a
// barrier only before a step that accesses data that earlier steps wrote, or writes data that they
// read.
#include <algorithm>
#include <cstring>

#include "lib/vulkan/device.h"

namespace hg::vulkan {
namespace {

constexpr size_t kInlineWords = 65536 / 4;  // limit of vkCmdUpdateBuffer

struct Range {
  const DeviceMemory* memory = nullptr;
  int64_t begin = 0, end = 0;
  bool writes = false;
};

bool collide(const Range& a, const Range& b) {
  return a.memory == b.memory && (a.writes || b.writes) && a.begin < b.end && b.begin < a.end;
}

// The commands made by prepare; null for a node without work, such as one on empty tensors.
const Commands* commands_of(const DeviceWork& item) {
  return item.kind == DeviceWork::Kind::kernel ? static_cast<const Commands*>(item.state) : nullptr;
}

class VulkanRecording final : public Recording {
 public:
  explicit VulkanRecording(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  ~VulkanRecording() override {
    const DeviceFunctions& vk = device_->vk();
    if (fence_ != VK_NULL_HANDLE) vk.DestroyFence(device_->handle(), fence_, nullptr);
    if (sets_ != VK_NULL_HANDLE) vk.DestroyDescriptorPool(device_->handle(), sets_, nullptr);
    if (pool_ != VK_NULL_HANDLE) vk.DestroyCommandPool(device_->handle(), pool_, nullptr);
  }

  Status make(std::span<const DeviceWork> work, DeviceConstants& constants) {
    HG_TRY(bind_all(work, constants));
    HG_TRY(create_objects(work));
    const DeviceFunctions& vk = device_->vk();
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    HG_VK_TRY(vk.BeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer");
    record_table();
    size_t dispatch = 0;
    int64_t staged = 0;
    for (const DeviceWork& item : work) {
      if (item.kind == DeviceWork::Kind::kernel) {
        const Commands* const kernel = commands_of(item);
        const size_t end = dispatch + (kernel != nullptr ? kernel->dispatches.size() : 0);
        while (dispatch < end) HG_TRY(record_dispatch(dispatch++));
        continue;
      }
      record_copy(item, staged);
    }
    // Makes writes visible to the host after the fence.
    VkMemoryBarrier barrier{};
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    vk.CmdPipelineBarrier(commands_,
                          VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                          VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
    HG_VK_TRY(vk.EndCommandBuffer(commands_), "vkEndCommandBuffer");
    return {};
  }

  Status run(std::span<void* const> host) override {
    Counters& count = device_->count();
    for (size_t i = 0; i < transfers_.size(); ++i) {
      const Transfer& transfer = transfers_[i];
      if (!transfer.up || transfer.bytes == 0) continue;
      std::memcpy(staging_->mapped() + transfer.offset, host[i], transfer.bytes);
      count.uploads += 1;
      count.upload_bytes += transfer.bytes;
    }
    if (flags_ != nullptr) std::memset(flags_->mapped(), 0, 4 * errors_.size());
    HG_TRY(device_->submit(commands_, fence_));
    count.dispatches += static_cast<int64_t>(bound_.size());
    for (size_t i = 0; i < transfers_.size(); ++i) {
      const Transfer& transfer = transfers_[i];
      if (transfer.up || transfer.bytes == 0) continue;
      std::memcpy(host[i], staging_->mapped() + transfer.offset, transfer.bytes);
      count.downloads += 1;
      count.download_bytes += transfer.bytes;
    }
    for (size_t i = 0; i < errors_.size(); ++i) {
      uint32_t flag = 0;
      std::memcpy(&flag, flags_->mapped() + 4 * i, 4);
      if (flag != 0) return invalid_argument(errors_[i].first, ": ", errors_[i].second);
    }
    return {};
  }

 private:
  struct Bound {
    const Dispatch* dispatch = nullptr;
    std::vector<VkDescriptorBufferInfo> buffers;
    std::vector<Range> ranges;
    uint32_t params = 0;  // word in the table
  };
  struct Transfer {
    bool up = false;
    int64_t offset = 0, bytes = 0;  // in the staging buffer
  };

  // Finds the memory of every operand and lays out the parameter table.
  Status bind_all(std::span<const DeviceWork> work, DeviceConstants& constants) {
    int64_t staging = 0;
    size_t flagged = 0;
    for (const DeviceWork& item : work) {
      if (item.kind == DeviceWork::Kind::upload || item.kind == DeviceWork::Kind::download) {
        const bool up = item.kind == DeviceWork::Kind::upload;
        const int64_t bytes = (up ? item.outputs : item.inputs)[0].bytes;
        transfers_.push_back({up, staging, bytes});
        staging += (bytes + 63) / 64 * 64;
      } else if (const Commands* kernel = commands_of(item)) {
        if (kernel->error != nullptr) ++flagged;
      }
      for (const auto& spans : {item.inputs, item.outputs})
        for (const DeviceSpan& span : spans)
          if (span.memory != nullptr) kept_.push_back(span.memory);
      if (item.workspace.memory != nullptr) kept_.push_back(item.workspace.memory);
    }
    if (staging > 0) {
      HG_TRY_ASSIGN(staging_, device_->buffer(staging, Device::Use::staging));
    }
    if (flagged > 0) {
      HG_TRY_ASSIGN(flags_,
                    device_->buffer(static_cast<int64_t>(4 * flagged), Device::Use::staging));
    }
    for (const DeviceWork& item : work) {
      const Commands* const kernel = commands_of(item);
      if (kernel == nullptr) continue;
      if (kernel->error != nullptr) errors_.emplace_back(std::string(item.label), kernel->error);
      for (const Dispatch& dispatch : kernel->dispatches) HG_TRY(bind(item, dispatch, constants));
    }
    if (table_.empty()) return {};
    HG_TRY_ASSIGN(const std::shared_ptr<DeviceMemory> memory,
                  device_->allocate(static_cast<int64_t>(4 * table_.size())));
    params_ = std::static_pointer_cast<Buffer>(memory);
    if (table_.size() <= kInlineWords) return {};
    return device_->upload({params_, 0, static_cast<int64_t>(4 * table_.size()), 0}, table_.data());
  }

  // Stores a small parameter table in the command buffer itself, which needs no transfer.
  void record_table() {
    if (table_.empty() || table_.size() > kInlineWords) return;
    const DeviceFunctions& vk = device_->vk();
    vk.CmdUpdateBuffer(commands_, params_->handle(), 0, 4 * table_.size(), table_.data());
    VkMemoryBarrier barrier{};
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT;
    vk.CmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT,
                          VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, nullptr, 0,
                          nullptr);
  }

  Status bind(const DeviceWork& item, const Dispatch& dispatch, DeviceConstants& constants) {
    Bound bound;
    bound.dispatch = &dispatch;
    bound.params = static_cast<uint32_t>(table_.size());
    const int64_t alignment = device_->info().binding_alignment;
    for (const Operand& operand : dispatch.operands) {
      DeviceSpan span;
      switch (operand.kind) {
        case Operand::Kind::input:
          span = item.inputs[operand.index];
          break;
        case Operand::Kind::output:
          span = item.outputs[operand.index];
          break;
        case Operand::Kind::workspace:
          span = item.workspace;
          span.offset += operand.offset;
          span.bytes = operand.bytes;
          break;
        case Operand::Kind::constant: {
          HG_TRY_ASSIGN(span, constants.copy_of(operand.data, operand.bytes));
          kept_.push_back(span.memory);
          break;
        }
        case Operand::Kind::flag:
          span = {flags_, static_cast<int64_t>(4 * (errors_.size() - 1)), 4, 0};
          break;
      }
      if (span.memory == nullptr) return internal_error(item.label, ": an operand has no memory");
      const auto* const buffer = static_cast<const Buffer*>(span.memory.get());
      const int64_t lowest = span.offset - span.before;
      const int64_t begin = lowest / alignment * alignment;
      // Rounded up to whole words; at least one, even for an empty tensor.
      const int64_t end = std::min(buffer->bytes(),
                                   (span.offset + std::max<int64_t>(span.bytes, 1) + 15) / 16 * 16);
      if (end - begin > device_->info().max_binding_bytes)
        return unsupported(item.label, ": a tensor of ", end - begin, " bytes is larger than the ",
                           device_->info().max_binding_bytes, " that the device can bind");
      bound.buffers.push_back({buffer->handle(), static_cast<VkDeviceSize>(begin),
                               static_cast<VkDeviceSize>(end - begin)});
      bound.ranges.push_back({buffer, lowest, span.offset + span.bytes, operand.writes});
      table_.push_back(static_cast<uint32_t>((span.offset - begin) / size_of(operand.dtype)));
    }
    table_.insert(table_.end(), dispatch.params.begin(), dispatch.params.end());
    bound_.push_back(std::move(bound));
    return {};
  }

  Status create_objects(std::span<const DeviceWork>) {
    const DeviceFunctions& vk = device_->vk();
    VkCommandPoolCreateInfo pool{};
    pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    pool.queueFamilyIndex = device_->queue_family();
    HG_VK_TRY(vk.CreateCommandPool(device_->handle(), &pool, nullptr, &pool_),
              "vkCreateCommandPool");
    VkCommandBufferAllocateInfo commands{};
    commands.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    commands.commandPool = pool_;
    commands.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    commands.commandBufferCount = 1;
    HG_VK_TRY(vk.AllocateCommandBuffers(device_->handle(), &commands, &commands_),
              "vkAllocateCommandBuffers");
    VkFenceCreateInfo fence{};
    fence.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
    HG_VK_TRY(vk.CreateFence(device_->handle(), &fence, nullptr, &fence_), "vkCreateFence");
    uint32_t buffers = 0;
    for (const Bound& bound : bound_) buffers += static_cast<uint32_t>(bound.buffers.size()) + 1;
    if (buffers == 0) return {};
    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, buffers};
    VkDescriptorPoolCreateInfo sets{};
    sets.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    sets.maxSets = static_cast<uint32_t>(bound_.size());
    sets.poolSizeCount = 1;
    sets.pPoolSizes = &size;
    HG_VK_TRY(vk.CreateDescriptorPool(device_->handle(), &sets, nullptr, &sets_),
              "vkCreateDescriptorPool");
    return {};
  }

  Status record_dispatch(size_t index) {
    const DeviceFunctions& vk = device_->vk();
    Bound& bound = bound_[index];
    HG_TRY_ASSIGN(const Pipeline pipeline, device_->pipeline(*bound.dispatch));
    VkDescriptorSetAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    allocate.descriptorPool = sets_;
    allocate.descriptorSetCount = 1;
    allocate.pSetLayouts = &pipeline.sets;
    VkDescriptorSet set = VK_NULL_HANDLE;
    HG_VK_TRY(vk.AllocateDescriptorSets(device_->handle(), &allocate, &set),
              "vkAllocateDescriptorSets");
    bound.buffers.insert(bound.buffers.begin(), {params_->handle(), 0, VK_WHOLE_SIZE});
    VkWriteDescriptorSet write{};
    write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    write.dstSet = set;
    write.descriptorCount = static_cast<uint32_t>(bound.buffers.size());
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = bound.buffers.data();
    vk.UpdateDescriptorSets(device_->handle(), 1, &write, 0, nullptr);
    barrier_before(bound.ranges);
    vk.CmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.handle);
    vk.CmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.layout, 0, 1, &set,
                             0, nullptr);
    vk.CmdPushConstants(commands_, pipeline.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4,
                        &bound.params);
    const auto& groups = bound.dispatch->groups;
    vk.CmdDispatch(commands_, static_cast<uint32_t>(groups[0]), static_cast<uint32_t>(groups[1]),
                   static_cast<uint32_t>(groups[2]));
    return {};
  }

  void record_copy(const DeviceWork& item, int64_t& staged) {
    const bool up = item.kind == DeviceWork::Kind::upload;
    const bool down = item.kind == DeviceWork::Kind::download;
    const DeviceSpan from =
        up ? DeviceSpan{staging_, staged, item.outputs[0].bytes, 0} : item.inputs[0];
    const DeviceSpan to = down ? DeviceSpan{staging_, staged, from.bytes, 0} : item.outputs[0];
    if (up || down) staged += (from.bytes + 63) / 64 * 64;
    if (from.bytes == 0) return;
    const auto* const source = static_cast<const Buffer*>(from.memory.get());
    const auto* const target = static_cast<const Buffer*>(to.memory.get());
    barrier_before({{source, from.offset, from.offset + from.bytes, false},
                    {target, to.offset, to.offset + from.bytes, true}});
    const VkBufferCopy copy{static_cast<VkDeviceSize>(from.offset),
                            static_cast<VkDeviceSize>(to.offset),
                            static_cast<VkDeviceSize>(from.bytes)};
    device_->vk().CmdCopyBuffer(commands_, source->handle(), target->handle(), 1, &copy);
  }

  // Waits for earlier steps if their ranges conflict with these.
  void barrier_before(const std::vector<Range>& ranges) {
    const bool waits = std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
      return std::any_of(open_.begin(), open_.end(),
                         [&](const Range& earlier) { return collide(range, earlier); });
    });
    if (waits) {
      constexpr VkPipelineStageFlags kStages =
          VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
      VkMemoryBarrier barrier{};
      barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
      barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_SHADER_WRITE_BIT;
      barrier.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT |
                              VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
      device_->vk().CmdPipelineBarrier(commands_, kStages, kStages, 0, 1, &barrier, 0, nullptr, 0,
                                       nullptr);
      open_.clear();
    }
    open_.insert(open_.end(), ranges.begin(), ranges.end());
  }

  std::shared_ptr<Device> device_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkDescriptorPool sets_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
  std::shared_ptr<Buffer> params_, staging_, flags_;
  std::vector<std::shared_ptr<DeviceMemory>> kept_;
  std::vector<uint32_t> table_;
  std::vector<Bound> bound_;  // one per dispatch
  std::vector<Transfer> transfers_;
  std::vector<std::pair<std::string, const char*>> errors_;
  std::vector<Range> open_;  // of steps since the last barrier
};

}  // namespace

Result<std::unique_ptr<Recording>> Device::record(std::span<const DeviceWork> work,
                                                  DeviceConstants& constants) {
  auto recording = std::make_unique<VulkanRecording>(weak_from_this().lock());
  HG_TRY(recording->make(work, constants));
  return std::unique_ptr<Recording>(std::move(recording));
}

}  // namespace hg::vulkan
