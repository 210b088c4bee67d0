// SPDX-License-Identifier: Apache-2.0
// The short form of a table row: an op with a shape rule and a gradient. The result may take the
// memory of the inputs whose bits are set in `alias`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hg/op.h"

namespace hg::ops {

inline constexpr uint32_t kOfFirst = 1, kOfEither = 3;

// Without `grad` a gradient is refused by name.
template <uint32_t alias = 0>
constexpr OpDef row(std::string_view name, std::string_view signature,
                    Status (*infer)(InferContext&), Status (*grad)(GradContext&) = nullptr) {
  return {.name = name, .signature = signature, .infer = infer, .grad = grad, .alias = alias};
}
// Ops whose gradient is zero or no matter: the same with nullptr in its place.
template <uint32_t alias = 0>
constexpr OpDef row(std::string_view name, std::string_view signature,
                    Status (*infer)(InferContext&), std::nullptr_t) {
  return {.name = name,
          .signature = signature,
          .infer = infer,
          .grad = nullptr,
          .alias = alias,
          .traits = kNoGradient};
}

}  // namespace hg::ops
