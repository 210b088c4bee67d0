// SPDX-License-Identifier: Apache-2.0
// Reads the packed weights of torch.ao.nn.quantized's layers. Only files that include libtorch
// include this header.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hg::convert {

// The values of an Object of the type kPackedWeights (quantized.h), by name. Nothing for objects of
// other classes.
std::optional<std::vector<std::pair<std::string, c10::IValue>>> unpacked(const c10::IValue& object);

}  // namespace hg::convert
