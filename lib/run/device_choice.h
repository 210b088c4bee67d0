// SPDX-License-Identifier: Apache-2.0
// Device::automatic: the model runs with zeros as inputs on the CPU and on the GPU, and the session
// uses what was faster. An open device remembers what was measured, and its cache blob keeps it.
#pragma once

#include <string>

#include "hg/options.h"

namespace hg {

struct DeviceChoice {
  Device device = Device::cpu;
  std::string why;  // one line of Session::report()
};

// `sizes` has every symbol of the graph's inputs, and `options.gpu` is open. What cannot be
// measured is left to the CPU. Takes at most four runs on each side, and no further one after 100
// ms.
DeviceChoice choose_device(const Graph& graph, const SessionOptions& options,
                           const Registry& registry, const Bindings& sizes);

}  // namespace hg
