// SPDX-License-Identifier: Apache-2.0
// Device::automatic: runs the model with zeros on the CPU and on the GPU, and selects the faster
// one. An open device stores the measurements, also in its cache blob.
#pragma once

#include <string>

#include "hg/options.h"
#include "hg/registry.h"

namespace hg {

struct DeviceChoice {
  Device device = Device::cpu;
  std::string why;  // one line of Session::report()
};

// `sizes` must bind every symbol of the graph's inputs, and `options.gpu` must be open. Selects the
// CPU if a measurement fails. At most four runs per device; no further run starts after 100 ms.
DeviceChoice choose_device(const Graph& graph, const SessionOptions& options,
                           const Registry& registry, const Bindings& sizes);

}  // namespace hg
