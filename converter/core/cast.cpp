// SPDX-License-Identifier: Apache-2.0
#include "converter/core/cast.h"

#include "hg/ops/movement.h"

namespace hg::convert {

Value cast(const Value& value, DType dtype) {
  if (!value || value.dtype() == dtype) return value;
  return value.graph()->call("cast", {value}, {{"dtype", dtype}});
}

Value size_value(Graph& g, const Dim& size) {
  if (size.is_constant()) return g.scalar(size.constant(), i64);
  return hg::reshape(g.call("dims", {}, {{"values", std::vector<Dim>{size}}}), {});
}

}  // namespace hg::convert
