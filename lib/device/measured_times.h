// SPDX-License-Identifier: Apache-2.0
// Stored run times of models on the CPU and on a device, for Device::automatic, and self-test
// results of device kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace hg {

// Run times in milliseconds; infinite if the device's results are wrong.
struct DeviceTimes {
  double cpu_ms = 0, gpu_ms = 0;
};

// Measurements of one device, by a checksum of graph, sizes and threads, or by kernel. Thread-safe.
class MeasuredTimes {
 public:
  std::optional<DeviceTimes> find(uint64_t key) const;
  void note(uint64_t key, const DeviceTimes& times);
  void add(const MeasuredTimes& others);

  // Appended to the bytes of a cache blob. take_from() removes it and ignores damaged data.
  void append_to(std::vector<std::byte>& blob) const;
  std::span<const std::byte> take_from(std::span<const std::byte> blob);

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, DeviceTimes> known_;
};

}  // namespace hg
