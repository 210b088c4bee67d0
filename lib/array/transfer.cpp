// SPDX-License-Identifier: Apache-2.0
// Moves arrays between the host and a device. Transfers only if the destination is out of date.
#include <algorithm>

#include "lib/array/access.h"
#include "lib/device/backend.h"
#include "lib/graph/border.h"

namespace hg {

Status Array::to_host() const {
  return or_no_memory([&]() -> Status {
    HG_CHECK(*this, "an array that is empty or freed has no elements");
    if (memory_->host_is_current) return {};
    HG_TRY(backend_of(memory_->gpu).download(memory_->begin, {memory_->device, 0, memory_->bytes}));
    memory_->host_is_current = true;
    return {};
  });
}

Status Array::make_writable() {
  return or_no_memory([&]() -> Status {
    if (bytes() < memory_->bytes || !is_contiguous()) HG_TRY(to_host());
    memory_->host_is_current = true;
    memory_->device_is_current = false;
    return {};
  });
}

Status Array::to_device(const Gpu& gpu) const { return to_device(std::span(this, 1), gpu); }

Status Array::to_device(std::span<const Array> arrays, const Gpu& gpu) {
  return or_no_memory([&]() -> Status {
    HG_CHECK(gpu, "this Gpu is not open; use Gpu::open()");
    Backend& backend = backend_of(gpu);
    std::vector<Memory*> stale;
    for (const Array& array : arrays) {
      HG_CHECK(array, "an array that is empty or freed has no elements");
      Memory& memory = *array.memory_;
      const bool is_here = memory.device != nullptr && &backend_of(memory.gpu) == &backend;
      if ((is_here && memory.device_is_current) ||
          std::find(stale.begin(), stale.end(), &memory) != stale.end())
        continue;
      HG_TRY(array.to_host());  // from another device
      if (!is_here) {
        HG_TRY_ASSIGN(memory.device, allocate_on(backend, std::max<int64_t>(memory.bytes, 4)));
        memory.gpu = gpu;
        memory.device_is_current = false;
      }
      stale.push_back(&memory);
    }
    if (stale.size() == 1) {
      HG_TRY(backend.upload({stale[0]->device, 0, stale[0]->bytes}, stale[0]->begin));
    } else if (!stale.empty()) {
      std::vector<DeviceWork> work;
      std::vector<void*> host;
      for (const Memory* memory : stale) {
        DeviceWork& upload = work.emplace_back();
        upload.kind = DeviceWork::Kind::upload;
        upload.label = "upload of an array";
        upload.outputs = {{memory->device, 0, memory->bytes}};
        host.push_back(memory->begin);
      }
      DeviceConstants none(backend);
      HG_TRY_ASSIGN(const std::unique_ptr<Recording> recording, record_on(backend, work, none));
      HG_TRY(recording->run(host));
    }
    for (Memory* memory : stale) memory->device_is_current = true;
    return {};
  });
}

Result<DeviceTensor> Array::on_device(const Gpu& gpu) const {
  return or_no_memory([&]() -> Result<DeviceTensor> {
    HG_TRY(to_device(gpu));
    return DeviceTensor{dtype(), shape(), memory_->device,
                        tensor_.as<std::byte>() - memory_->begin};
  });
}

Result<Array> Array::copy_of(const DeviceTensor& tensor, const Gpu& gpu) {
  return or_no_memory([&]() -> Result<Array> {
    HG_TRY_ASSIGN(Array made, allocate(tensor.dtype, tensor.shape));
    HG_TRY(ArrayAccess::copy_on_device(tensor, made, gpu));
    return made;
  });
}

Status ArrayAccess::copy_on_device(const DeviceTensor& from, const Array& to, const Gpu& gpu) {
  Backend& backend = backend_of(gpu);
  Memory& memory = *to.memory_;
  if (memory.device == nullptr || &backend_of(memory.gpu) != &backend ||
      (!memory.device_is_current && to.bytes() < memory.bytes)) {
    if (to.bytes() < memory.bytes) {
      HG_TRY(to.to_device(gpu));  // the rest of the memory must stay unchanged
    } else {
      HG_TRY_ASSIGN(memory.device, allocate_on(backend, std::max<int64_t>(memory.bytes, 4)));
      memory.gpu = gpu;
    }
  }
  memory.device_is_current = true;
  if (from.bytes() == 0) return {};
  memory.host_is_current = false;
  DeviceWork copy;
  copy.kind = DeviceWork::Kind::copy;
  copy.label = "copy of a result";
  copy.inputs = {{from.memory, from.offset, from.bytes()}};
  copy.outputs = {{memory.device, to.tensor().as<std::byte>() - memory.begin, from.bytes()}};
  DeviceConstants none(backend);
  HG_TRY_ASSIGN(const std::unique_ptr<Recording> recording, record_on(backend, {&copy, 1}, none));
  return recording->run({});
}

}  // namespace hg
