// SPDX-License-Identifier: Apache-2.0
// Resampling: interpolate, grid_sample, pixel_shuffle.
#include "converter/rows.h"

namespace hg::convert::rows {

std::span<const Row> image() { return {}; }

}  // namespace hg::convert::rows
