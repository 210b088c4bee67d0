// SPDX-License-Identifier: Apache-2.0
// Memory for the tensors of a file.
#pragma once

#include <string>
#include <utility>

#include "converter/core/failure.h"
#include "hg/tensor.h"

namespace hg::convert {

// Throws Failure if the memory cannot be allocated.
inline TensorData allocated(DType dtype, const Sizes& shape) {
  Result<TensorData> data = TensorData::allocate(dtype, shape);
  if (!data.ok()) throw Failure{Exit::unsupported, std::string(data.status().message())};
  return *std::move(data);
}

}  // namespace hg::convert
