// SPDX-License-Identifier: Apache-2.0
// Access to the memory behind arrays, for code that moves it.
#pragma once

#include <memory>
#include <utility>

#include "hg/array.h"
#include "hg/gpu.h"

namespace hg {

struct ArrayAccess {
  using Memory = Array::Memory;
  static const std::shared_ptr<Memory>& memory(const Array& array) { return array.memory_; }
  static Array make(const Tensor& tensor, std::shared_ptr<Memory> memory) {
    return Array(tensor, std::move(memory));
  }
  // Copies a tensor of the device to the memory of a contiguous array there. The array has the
  // dtype and shape of the tensor; its host copy becomes stale.
  static Status copy_on_device(const DeviceTensor& from, const Array& to, const Gpu& gpu);
};

}  // namespace hg
