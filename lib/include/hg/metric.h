// SPDX-License-Identifier: Apache-2.0
// Measures of a model's outputs against targets, for evaluation (hg/train.h) and for quantization
// (hg/quantize.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hg/status.h"

namespace hg {

struct Metric {
  enum class Kind : uint8_t {
    accuracy,    // fraction of correct classes
    mean_error,  // mean |output - target|
  };
  Kind kind = Kind::accuracy;
  std::string output = "";        // as in Loss (hg/train.h)
  std::string target = "target";  // of one of the losses
};
std::string_view to_string(Metric::Kind kind);
Result<Metric::Kind> parse_metric(std::string_view name);

}  // namespace hg
