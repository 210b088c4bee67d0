// SPDX-License-Identifier: Apache-2.0
// The public handle of a device: a Backend.
#include "hg/gpu.h"

#include <algorithm>

#include "lib/device/backend.h"
#include "lib/graph/border.h"
#include "lib/graph/readable.h"

namespace hg {

std::string_view to_string(DeviceInfo::Type type) {
  switch (type) {
    case DeviceInfo::Type::discrete:
      return "discrete";
    case DeviceInfo::Type::integrated:
      return "integrated";
    case DeviceInfo::Type::virtual_gpu:
      return "virtual";
    case DeviceInfo::Type::software:
      return "software";
    case DeviceInfo::Type::other:
      break;
  }
  return "other";
}

Backend::Backend() : records_(std::make_shared<Records>()) {}

Backend& backend_of(const Gpu& gpu) { return *gpu.backend_; }

std::span<const KernelDef* const> kernels_of(const Gpu& gpu, const Registry& registry,
                                             const Op& op) {
  if (!gpu || (op.def.traits & (kRandom | kDataDependent | kControl))) return {};
  return backend_of(gpu).kernels(registry, op);
}

Result<std::vector<DeviceInfo>> list_devices() {
  return or_no_memory([&]() -> Result<std::vector<DeviceInfo>> { return list_vulkan(); });
}

Result<Gpu> Gpu::open(const GpuOptions& options) {
  return or_no_memory([&]() -> Result<Gpu> {
    Gpu gpu;
    MeasuredTimes measured;
    GpuOptions inner = options;
    inner.cache = measured.take_from(options.cache);
    HG_TRY_ASSIGN(gpu.backend_, open_vulkan(inner));
    gpu.backend_->records().measured.add(measured);
    return gpu;
  });
}

Result<Gpu> Gpu::open_backend(std::shared_ptr<Backend> backend) {
  return or_no_memory([&]() -> Result<Gpu> {
    HG_CHECK(backend != nullptr, "open_backend() is given no backend");
    HG_TRY(check_backend(*backend));
    Gpu gpu;
    gpu.backend_ = std::move(backend);
    return gpu;
  });
}

const DeviceInfo& Gpu::info() const {
  static const DeviceInfo kNone;
  return backend_ != nullptr ? backend_->info() : kNone;
}

GpuCounters Gpu::counters() const {
  return backend_ != nullptr ? backend_->counters() : GpuCounters();
}

Result<DeviceTensor> Gpu::upload(const ConstTensor& tensor) const {
  return or_no_memory([&]() -> Result<DeviceTensor> {
    HG_CHECK(backend_ != nullptr, "this Gpu is not open; use Gpu::open()");
    HG_CHECK(is_readable(tensor), "a tensor has ", unreadable_part(tensor));
    DeviceTensor result{tensor.dtype, tensor.shape, nullptr, 0};
    HG_TRY_ASSIGN(result.memory, allocate_on(*backend_, std::max<int64_t>(tensor.bytes(), 1)));
    TensorData packed;
    const void* from = tensor.data;
    if (!tensor.is_contiguous()) {
      HG_TRY_ASSIGN(packed, TensorData::copy_of(tensor));
      from = packed.tensor.data;
    }
    HG_TRY(backend_->upload({result.memory, 0, tensor.bytes()}, from));
    return result;
  });
}

Result<TensorData> Gpu::download(const DeviceTensor& tensor) const {
  return or_no_memory([&]() -> Result<TensorData> {
    HG_CHECK(backend_ != nullptr, "this Gpu is not open; use Gpu::open()");
    HG_CHECK(tensor.memory != nullptr, "the device tensor is empty");
    HG_CHECK(tensor.memory->is_of(*backend_), "the tensor is on another device than ", info().name);
    HG_TRY_ASSIGN(TensorData data, TensorData::allocate(tensor.dtype, tensor.shape));
    HG_TRY(backend_->download(data.tensor.data, {tensor.memory, tensor.offset, tensor.bytes()}));
    return data;
  });
}

Result<std::vector<std::byte>> Gpu::cache() const {
  return or_no_memory([&]() -> Result<std::vector<std::byte>> {
    HG_CHECK(backend_ != nullptr, "this Gpu is not open; use Gpu::open()");
    HG_TRY_ASSIGN(std::vector<std::byte> blob, backend_->cache());
    backend_->records().measured.append_to(blob);
    return blob;
  });
}

}  // namespace hg
