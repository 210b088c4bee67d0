// SPDX-License-Identifier: Apache-2.0
// conv_integer with one input channel per group, constant weights that fit i8, and 8-bit results,
// on processors that multiply bytes without saturation. Quads of neighbors in a row of bytes are
// multiplied with quads of weights, and the sums of neighbors are rounded to bytes in registers.
#pragma once

#include "hg/kernel.h"

namespace hg::kernels {

bool takes_depthwise_bytes(const PrepareContext& c);
Status prepare_depthwise_bytes(PrepareContext& c);
void run_depthwise_bytes(const RunContext& c) noexcept;

}  // namespace hg::kernels
