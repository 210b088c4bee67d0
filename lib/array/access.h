// SPDX-License-Identifier: Apache-2.0
// Access to the memory behind arrays, for code that moves it.
#pragma once

#include <memory>
#include <utility>

#include "hg/array.h"

namespace hg {

struct ArrayAccess {
  using Memory = Array::Memory;
  static const std::shared_ptr<Memory>& memory(const Array& array) { return array.memory_; }
  static Array make(const Tensor& tensor, std::shared_ptr<Memory> memory) {
    return Array(tensor, std::move(memory));
  }
};

}  // namespace hg
