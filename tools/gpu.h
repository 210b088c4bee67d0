// SPDX-License-Identifier: Apache-2.0
// The device of --device vulkan: opened once in a process, its kernels kept for the next one in the
// user's cache folder.
#pragma once

#include <string>

#include "hg/gpu.h"

namespace hg::tools {

class GpuOfTool {
 public:
  GpuOfTool() = default;
  GpuOfTool(const GpuOfTool&) = delete;
  GpuOfTool& operator=(const GpuOfTool&) = delete;
  ~GpuOfTool();  // writes the cache where kernels were added

  // The best GPU, or else a software device: a tool was asked for Vulkan by name.
  Result<Gpu> get();

 private:
  Gpu gpu_;
  std::string cache_path_;
  size_t cached_ = 0;  // bytes that the cache had
};

}  // namespace hg::tools
