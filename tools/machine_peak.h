// SPDX-License-Identifier: Apache-2.0
// The machine's peaks, measured through the library itself: the yardstick of a profile.
#pragma once

#include "hg/status.h"

namespace hg::tools {

struct MachinePeak {
  double gflops = 0;  // of f32 matrix products that stay in the caches
  double gbytes = 0;  // read and written each second, of arrays far larger than the caches
};

// Takes some tens of milliseconds.
Result<MachinePeak> measure_peak(int threads);

}  // namespace hg::tools
