// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: each position uses the experts with the highest router scores.
#pragma once

#include <string>

#include "converter/load/gguf/settings.h"
#include "converter/load/gguf/weights.h"

namespace hg::convert::gguf {

// x: f32[b, t, width] -> f32[b, t, width]. `at` is the tensors' prefix, such as "blk.0.". Throws
// Failure.
Value mixture_of_experts(Weights& weights, const std::string& at, const Value& x,
                         const Settings& settings);

}  // namespace hg::convert::gguf
