// SPDX-License-Identifier: Apache-2.0
#include "converter/core/cast.h"

namespace hg::convert {

Value cast(const Value& value, DType dtype) {
  if (!value || value.dtype() == dtype) return value;
  return value.graph()->call("cast", {value}, {{"dtype", dtype}});
}

}  // namespace hg::convert
