// SPDX-License-Identifier: Apache-2.0
// Devices of hg/c.h.
#include <cstring>

#include "hg/gpu.h"
#include "lib/c/handles.h"
#include "lib/c/structs.h"

using hg::c::border;

namespace hg::c {
namespace {

template <size_t kSize>
void write_name(char (&to)[kSize], std::string_view from) {
  std::memset(to, 0, kSize);
  std::memcpy(to, from.data(), std::min(kSize - 1, from.size()));
}

Status write_device(hg_device_info* to, const DeviceInfo& from) {
  hg_device_info all{};
  all.type = static_cast<int32_t>(from.type);
  write_name(all.name, from.name);
  write_name(all.driver, from.driver);
  all.memory_bytes = from.memory_bytes;
  return write_struct(to, all, "hg_device_info");
}

}  // namespace

Status write_bytes(void* to, size_t capacity, size_t* size, const std::vector<std::byte>& bytes) {
  HG_CHECK(size != nullptr, "size is null");
  *size = bytes.size();
  const size_t count = std::min(capacity, bytes.size());
  if (to != nullptr && count > 0) std::memcpy(to, bytes.data(), count);
  return {};
}

}  // namespace hg::c

extern "C" {

hg_status* hg_device_count(int32_t* count) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(count);
    *count = 0;
    HG_TRY_ASSIGN(const std::vector<hg::DeviceInfo> devices, hg::list_devices());
    *count = static_cast<int32_t>(devices.size());
    return {};
  });
}

hg_status* hg_device(int32_t index, hg_device_info* info) {
  return border([&]() -> hg::Status {
    HG_TRY_ASSIGN(const std::vector<hg::DeviceInfo> devices, hg::list_devices());
    if (index < 0 || index >= static_cast<int32_t>(devices.size()))
      return hg::not_found("there is no device ", index, "; there are ", uint64_t{devices.size()});
    return hg::c::write_device(info, devices[index]);
  });
}

hg_status* hg_gpu_open(const char* name, const void* cache, size_t cache_size, hg_gpu** gpu) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(gpu);
    *gpu = nullptr;
    HG_CHECK(cache != nullptr || cache_size == 0, "cache is null and has ", uint64_t{cache_size},
             " bytes");
    HG_TRY_ASSIGN(hg::Gpu opened,
                  hg::Gpu::open({.name = name == nullptr ? "" : name,
                                 .cache = {static_cast<const std::byte*>(cache), cache_size}}));
    return hg::c::give(gpu, std::move(opened));
  });
}

hg_status* hg_gpu_info(const hg_gpu* gpu, hg_device_info* info) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(gpu);
    return hg::c::write_device(info, gpu->gpu.info());
  });
}

hg_status* hg_gpu_cache(const hg_gpu* gpu, void* cache, size_t capacity, size_t* size) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(gpu);
    HG_TRY_ASSIGN(const std::vector<std::byte> bytes, gpu->gpu.cache());
    return hg::c::write_bytes(cache, capacity, size, bytes);
  });
}

void hg_gpu_free(hg_gpu* gpu) { delete gpu; }

hg_status* hg_gpu_upload(const hg_gpu* gpu, const hg_tensor* tensor, hg_device_tensor** uploaded) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(uploaded);
    *uploaded = nullptr;
    HG_C_NEEDS(gpu);
    HG_TRY_ASSIGN(const hg::Tensor from, hg::c::read_tensor(tensor));
    HG_TRY_ASSIGN(hg::DeviceTensor made, gpu->gpu.upload(from));
    return hg::c::give(uploaded, std::move(made));
  });
}

hg_status* hg_gpu_download(const hg_gpu* gpu, const hg_device_tensor* tensor,
                           const hg_tensor* into) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(gpu);
    HG_C_NEEDS(tensor);
    HG_TRY_ASSIGN(const hg::Tensor to, hg::c::read_tensor(into));
    HG_CHECK(to.dtype == tensor->tensor.dtype && to.shape == tensor->tensor.shape,
             "the device tensor is ", tensor->tensor.dtype, tensor->tensor.shape,
             ", and `into` is ", to.dtype, to.shape);
    HG_TRY_ASSIGN(const hg::TensorData from, gpu->gpu.download(tensor->tensor));
    hg::copy_elements(from.tensor, to);
    return {};
  });
}

hg_status* hg_device_tensor_type(const hg_device_tensor* tensor, hg_tensor* type) {
  return border([&]() -> hg::Status {
    HG_C_NEEDS(tensor);
    return hg::c::write_tensor(
        type, hg::view(static_cast<void*>(nullptr), tensor->tensor.dtype, tensor->tensor.shape));
  });
}

void hg_device_tensor_free(hg_device_tensor* tensor) { delete tensor; }

}  // extern "C"
