// SPDX-License-Identifier: Apache-2.0
#include "tools/gpu.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tools/process.h"

namespace hg::tools {
namespace {

namespace fs = std::filesystem;

// $XDG_CACHE_HOME/hologram or ~/.cache/hologram; empty if neither is defined.
fs::path cache_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return fs::path(cache) / "hologram";
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return fs::path(home) / ".cache" / "hologram";
  return {};
}

std::string file_name(const DeviceInfo& info) {
  std::string name = "vulkan-" + info.name + "-" + info.driver + ".bin";
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  return name;
}

std::vector<std::byte> read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> result(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) result[i] = static_cast<std::byte>(bytes[i]);
  return result;
}

}  // namespace

Status GpuOfTool::give_to(SessionOptions& options) {
  if (options.device == Device::cpu) return {};
  const bool by_name = options.device == Device::vulkan;
  Result<Gpu> open = get(by_name);
  if (open.ok())
    options.gpu = *std::move(open);
  else if (by_name)
    return open.status();
  return {};
}

Result<Gpu> GpuOfTool::get(bool software) {
  if (gpu_) return gpu_;
  HG_TRY_ASSIGN(const std::vector<DeviceInfo> devices, list_devices());
  const DeviceInfo* best = nullptr;
  for (const DeviceInfo& device : devices)
    if ((software || device.type != DeviceInfo::Type::software) &&
        (best == nullptr || device.type < best->type))
      best = &device;
  if (best == nullptr) return unsupported("there is no Vulkan device");
  std::vector<std::byte> cache;
  if (const fs::path folder = cache_folder(); !folder.empty()) {
    cache_path_ = text_of(folder / file_name(*best));
    cache = read_all(path_of(cache_path_));
    cached_ = cache.size();
  }
  HG_TRY_ASSIGN(gpu_, Gpu::open({.name = std::to_string(best->index), .cache = cache}));
  return gpu_;
}

// Writes a temporary file and renames it, so that readers see a complete file or none.
GpuOfTool::~GpuOfTool() {
  if (!gpu_ || cache_path_.empty()) return;
  const Result<std::vector<std::byte>> cache = gpu_.cache();
  if (!cache.ok() || cache->size() == cached_) return;
  std::error_code error;
  const fs::path path = path_of(cache_path_);
  fs::create_directories(path.parent_path(), error);
  const fs::path temporary = path_of(cache_path_ + "." + std::to_string(process_id()));
  std::ofstream file(temporary, std::ios::binary);
  file.write(reinterpret_cast<const char*>(cache->data()),
             static_cast<std::streamsize>(cache->size()));
  file.close();
  if (file) fs::rename(temporary, path, error);
  if (!file || error) fs::remove(temporary, error);
}

}  // namespace hg::tools
