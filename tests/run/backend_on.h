// SPDX-License-Identifier: Apache-2.0
// What tests of an application's own device share: its options and the numbers of inputs.
#pragma once

#include <cmath>
#include <vector>

#include "hg/hg.h"

namespace hg::test {

inline std::vector<float> numbers(int64_t count) {
  std::vector<float> all(static_cast<size_t>(count));
  for (size_t i = 0; i < all.size(); ++i) all[i] = std::sin(0.37f * static_cast<float>(i + 1));
  return all;
}

inline SessionOptions on(const Gpu& gpu) {
  SessionOptions options;
  options.device = Device::vulkan;
  options.gpu = gpu;
  return options;
}

}  // namespace hg::test
