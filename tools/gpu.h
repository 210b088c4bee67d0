// SPDX-License-Identifier: Apache-2.0
// The device of --device vulkan and --device auto. Opened once per process. Its kernels are cached
// in the user's cache folder for the next process.
#pragma once

#include <string>

#include "hg/session.h"

namespace hg::tools {

class GpuOfTool {
 public:
  GpuOfTool() = default;
  GpuOfTool(const GpuOfTool&) = delete;
  GpuOfTool& operator=(const GpuOfTool&) = delete;
  ~GpuOfTool();  // writes the cache if kernels were added

  // Sets the best GPU in the options of a session. Without a GPU, --device vulkan gets a software
  // device, and automatic gets none.
  Status give_to(SessionOptions& options);

 private:
  Result<Gpu> get(bool software);

  Gpu gpu_;
  std::string cache_path_;
  size_t cached_ = 0;  // bytes of the cache when it was read
};

}  // namespace hg::tools
