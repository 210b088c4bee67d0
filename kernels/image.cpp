// SPDX-License-Identifier: Apache-2.0
// Resampling: interpolate, grid_sample, pixel_shuffle.
#include "hg/kernel.h"

namespace hg::kernels {

std::span<const KernelDef> image() { return {}; }

}  // namespace hg::kernels
