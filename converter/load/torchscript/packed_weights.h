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

struct Unpacked {
  const char* type = nullptr;  // of the Object: a name in quantized.h
  std::vector<std::pair<std::string, c10::IValue>> values;
};

// Returns nothing for objects of other classes.
std::optional<Unpacked> unpacked(const c10::IValue& object);

// Whether an Object of the type kQuantizedTensor can hold the tensor.
bool is_unpackable(const at::Tensor& tensor);
Unpacked unpacked_tensor(const at::Tensor& tensor);

}  // namespace hg::convert
