// SPDX-License-Identifier: Apache-2.0
// Bits per weight for a limit of the model's error.
#pragma once

#include "lib/quantize/by_samples.h"

namespace hg {

// For QuantizeOptions::max_error. The samples have no NaN.
Result<Quantized> quantize_to_limit(const Model& model, Samples samples,
                                    const QuantizeOptions& options, const SessionOptions& session);

}  // namespace hg
