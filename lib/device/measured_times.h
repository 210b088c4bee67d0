// SPDX-License-Identifier: Apache-2.0
// How fast models ran on the CPU and on a device, for Device::automatic; and kernels of the device
// on their self-tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace hg {

// Times of a run in milliseconds; infinite where the device's answers are wrong.
struct DeviceTimes {
  double cpu_ms = 0, gpu_ms = 0;
};

// What was measured beside one device, by a checksum of graph, sizes and threads, or of a kernel.
// Any thread.
class MeasuredTimes {
 public:
  std::optional<DeviceTimes> find(uint64_t key) const;
  void note(uint64_t key, const DeviceTimes& times);
  void add(const MeasuredTimes& others);

  // Behind the bytes of a cache blob; take_from() cuts it off there and ignores what is damaged.
  void append_to(std::vector<std::byte>& blob) const;
  std::span<const std::byte> take_from(std::span<const std::byte> blob);

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, DeviceTimes> known_;
};

}  // namespace hg
