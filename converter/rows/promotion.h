// SPDX-License-Identifier: Apache-2.0
// torch's type promotion (c10's result_type): tensors with dims count before 0-d tensors, those
// before numbers, within the kinds bool < integer < float.
#pragma once

#include <optional>

#include "hg/op.h"

namespace hg::convert {

struct Promotion {
  std::optional<DType> dims, zero, number;

  static void add(std::optional<DType>& slot, DType dtype) {
    slot = slot ? promote(*slot, dtype) : dtype;
  }
  void add_tensor(DType dtype, int rank) { add(rank > 0 ? dims : zero, dtype); }
  void add_number(DType dtype) { add(number, is_float(dtype) ? f32 : dtype); }

  static std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
    if (!higher) return lower;
    if (!lower || is_float(*higher)) return higher;
    if (*higher == boolean || is_float(*lower)) return promote(*higher, *lower);
    return higher;
  }
  DType result() const { return combine(dims, combine(zero, number)).value_or(f32); }
};

}  // namespace hg::convert
