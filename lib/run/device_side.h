// SPDX-License-Identifier: Apache-2.0
// What a program holds on a device: arenas, inputs, copies of weights and states, and the
// recordings of its plans.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/device/backend.h"
#include "lib/plan/plan.h"

namespace hg {

// Consecutive steps of a plan that run on the device in one submit.
struct DeviceSegment {
  size_t begin = 0, end = 0;
  std::unique_ptr<Recording> recording;
  std::vector<const Place*> transfers;  // the host's side of each upload and download
  std::vector<void*> host;              // their addresses, filled before each run
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

  // Makes the arena and the inputs large enough.
  Status reserve(const Plan& plan);
  // Gives them back; plans reserve them again.
  void release_arenas();
  // An empty tensor: the input comes from the host again.
  void set_input(size_t index, const DeviceTensor& tensor);
  bool is_given(size_t index) const { return given_[index].memory != nullptr; }
  // Where the host has each state; what was copied before is forgotten.
  void set_states(std::vector<Tensor> states);
  // With `each`, every step is submitted alone, so that it can be timed.
  Result<std::vector<DeviceSegment>> record(const Plan& plan, bool each);
  Result<DeviceSpan> span_of(const PlacedTensor& value);
  // Changes whenever recordings must be made again.
  int64_t generation() const { return generation_; }
  int64_t bytes() const;

  Status fetch_input(size_t index, int64_t bytes, void* to);
  Status fetch_state(size_t index);  // to where the host has it
  Status store_state(size_t index);  // from there
  Result<TensorData> fetch(const PlacedTensor& value);

 private:
  std::shared_ptr<Backend> backend_;
  DeviceConstants constants_;
  ArenaObserver observer_;
  std::vector<Tensor> states_;
  std::vector<DeviceTensor> given_;                    // inputs of the host, empty where on the CPU
  std::vector<std::shared_ptr<DeviceMemory>> inputs_;  // uploaded ones
  std::vector<std::shared_ptr<DeviceMemory>> arenas_;  // by part
  int64_t generation_ = 0;
};

}  // namespace hg
