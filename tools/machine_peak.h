// SPDX-License-Identifier: Apache-2.0
// The machine's peaks, measured through the library itself. A profile is compared with them.
#pragma once

#include "hg/status.h"

namespace hg::tools {

struct MachinePeak {
  double gflops = 0;  // of f32 matrix products in the cache
  double gbytes = 0;  // read and written per second, for arrays far larger than the caches
};

// Takes some tens of milliseconds.
Result<MachinePeak> measure_peak(int threads);

}  // namespace hg::tools
