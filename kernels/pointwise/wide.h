// SPDX-License-Identifier: Apache-2.0
// Kernels whose blocks compute in vectors of doubles (kernels/pointwise/wide-inl.h).
#pragma once

#include <type_traits>

#include "kernels/pointwise/pointwise.h"

namespace hg::kernels {

struct WideBlocks {
  Block in_f32 = nullptr, in_f64 = nullptr;
  Block of(DType dtype) const {
    if (dtype == DType::f64) return in_f64;
    return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 ? in_f32 : nullptr;
  }
};

// A row for the blocks of an op in the table of the chosen instruction set. read: a ParamsFunction
// or nullptr.
template <auto table, auto blocks, auto read = nullptr>
constexpr KernelDef wide_row(std::string_view op) {
  return {
      .op = op,
      .name = "wide",
      .accepts =
          [](const PrepareContext& c) { return (table().*blocks).of(c.in(0).dtype) != nullptr; },
      .prepare =
          [](PrepareContext& c) {
            PointwiseParams params;
            if constexpr (!std::is_null_pointer_v<decltype(read)>) read(c, params);
            return prepare_block(c, (table().*blocks).of(c.in(0).dtype), params);
          },
      .run = &run_pointwise,
      .strided = kAllStrided,
      .in_programs = true};
}

}  // namespace hg::kernels
