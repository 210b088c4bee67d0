// SPDX-License-Identifier: Apache-2.0
// Resampling: interpolate, grid_sample, pixel_shuffle.
#include "hg/op.h"

namespace hg::ops {

std::span<const OpDef> image() { return {}; }

}  // namespace hg::ops
