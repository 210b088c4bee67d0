// SPDX-License-Identifier: Apache-2.0
// Device resources of an engine: arenas, inputs, copies of weights and states, and the recordings
// of its plans.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/device/backend.h"
#include "lib/plan/plan.h"

namespace hg {

// Consecutive plan steps that run on the device in one submission.
struct DeviceSegment {
  size_t begin = 0, end = 0;
  std::unique_ptr<Recording> recording;
  std::vector<const Place*> transfers;  // host side of each upload and download
  std::vector<void*> host;              // their addresses, set before each run
};

class DeviceSide {
 public:
  DeviceSide(std::shared_ptr<Backend> backend, size_t inputs, const ArenaObserver& observer)
      : backend_(std::move(backend)),
        constants_(*backend_),
        observer_(observer),
        given_(inputs),
        inputs_(inputs) {}
  ~DeviceSide() { release_arenas(); }

  // Grows the arena and the inputs as needed.
  Status reserve(const Plan& plan);
  // Frees them; plans reserve them again.
  void release_arenas();
  // An empty tensor means that the input comes from the host again.
  void set_input(size_t index, const DeviceTensor& tensor);
  bool is_given(size_t index) const { return given_[index].memory != nullptr; }
  // Sets where the host stores each state, and forgets earlier copies.
  void set_states(std::vector<Tensor> states);
  // If `each`, submits every step separately, to time it.
  Result<std::vector<DeviceSegment>> record(const Plan& plan, bool each);
  Result<DeviceSpan> span_of(const PlacedTensor& value);
  // Changes when recordings must be made again.
  int64_t generation() const { return generation_; }
  int64_t bytes() const;

  Status fetch_input(size_t index, int64_t bytes, void* to);
  Status fetch_state(size_t index);  // copies the state to the host
  Status store_state(size_t index);  // copies the state to the device
  Result<TensorData> fetch(const PlacedTensor& value);

 private:
  std::shared_ptr<Backend> backend_;
  DeviceConstants constants_;
  ArenaObserver observer_;
  std::vector<Tensor> states_;
  // device inputs set by the host; empty if the input is on the CPU
  std::vector<DeviceTensor> given_;
  std::vector<std::shared_ptr<DeviceMemory>> inputs_;  // uploaded inputs
  std::vector<std::shared_ptr<DeviceMemory>> arenas_;  // per part
  int64_t generation_ = 0;
};

}  // namespace hg
