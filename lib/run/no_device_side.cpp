// SPDX-License-Identifier: Apache-2.0
// Builds without a backend have no device: an engine never has a DeviceSide.
#include "lib/run/device_side.h"

namespace hg {

Status DeviceSide::reserve(const Plan&) { return {}; }
void DeviceSide::release_arenas() {}
void DeviceSide::set_input(size_t, const DeviceTensor&) {}
void DeviceSide::set_states(std::vector<Tensor>) {}
Result<std::vector<DeviceSegment>> DeviceSide::record(const Plan&, bool) {
  return std::vector<DeviceSegment>();
}
Result<DeviceSpan> DeviceSide::span_of(const PlacedTensor&) { return DeviceSpan(); }
int64_t DeviceSide::bytes() const { return 0; }
Status DeviceSide::fetch_input(size_t, int64_t, void*) { return {}; }
Status DeviceSide::fetch_state(size_t) { return {}; }
Status DeviceSide::store_state(size_t) { return {}; }
Result<TensorData> DeviceSide::fetch(const PlacedTensor&) { return TensorData(); }

}  // namespace hg
