// SPDX-License-Identifier: Apache-2.0
#include "tools/npy_cast.h"

#include "hg/create.h"

namespace hg::tools {

std::optional<Array> cast(const Array& array, DType type) {
  const bool is_wide = array.dtype() == f32 || array.dtype() == f64;
  const bool loses_digits_alone = type == f32 ? array.dtype() == f64
                                  : type == f16 || type == bf16
                                      ? is_wide
                                      : type == i64 && is_integer(array.dtype());
  if (!loses_digits_alone) return std::nullopt;
  Result<Array> made = hg::cast(array, type);
  if (!made.ok()) return std::nullopt;
  return *std::move(made);
}

}  // namespace hg::tools
