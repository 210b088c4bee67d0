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
        HG_TRY_ASSIGN(memory.device, backend.allocate(std::max<int64_t>(memory.bytes, 4)));
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
      HG_TRY_ASSIGN(const std::unique_ptr<Recording> recording, backend.record(work, none));
      HG_TRY(recording->run(host));
    }
    for (Memory* memory : stale) memory->device_is_current = true;
    return {};
  });
}

}  // namespace hg
