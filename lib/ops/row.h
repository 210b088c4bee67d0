// SPDX-License-Identifier: Apache-2.0
// Short forms of table rows: ops with a shape rule and a gradient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hg/op.h"

namespace hg::ops {

// An op without `grad` has no gradient; requesting one fails with the op's name.
template <uint32_t traits = kNoTraits>
constexpr OpDef row(std::string_view signature, Status (*infer)(InferContext&),
                    Status (*grad)(GradContext&) = nullptr) {
  return {.signature = signature, .infer = infer, .grad = grad, .traits = traits};
}
// Ops without a gradient (zero or undefined): nullptr in its place.
template <uint32_t traits = kNoTraits>
constexpr OpDef row(std::string_view signature, Status (*infer)(InferContext&), std::nullptr_t) {
  return {.signature = signature, .infer = infer, .traits = traits | kNoGradient};
}

// Elementwise ops, whose result may overwrite any input.
template <uint32_t traits = kNoTraits, class Grad = Status (*)(GradContext&)>
constexpr OpDef unary_row(std::string_view signature, Status (*infer)(InferContext&),
                          Grad grad = nullptr) {
  OpDef def = row<traits | kElementwise>(signature, infer, grad);
  def.alias = 0b1;
  return def;
}
template <uint32_t traits = kNoTraits, class Grad = Status (*)(GradContext&)>
constexpr OpDef binary_row(std::string_view signature, Status (*infer)(InferContext&),
                           Grad grad = nullptr) {
  OpDef def = row<traits | kElementwise>(signature, infer, grad);
  def.alias = 0b11;
  return def;
}

}  // namespace hg::ops
