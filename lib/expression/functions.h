// SPDX-License-Identifier: Apache-2.0
// Functions in a kernel's text: elementwise ops of the registry, and a few that consist of several
// ops.
#pragma once

#include <string_view>

#include "hg/op.h"

namespace hg {

// Finds the op by its name or alias: min is minimum, max is maximum, select is where. Null if
// unknown.
const Op* function_op(const Registry& registry, std::string_view name);

// Whether the op has one result, computed element by element, possibly through its expansion.
// `attrs` are those of the call.
bool is_function_of_elements(const Registry& registry, const Op& op, const NamedAttrs& attrs);

// Whether the op accepts tensors of this dtype.
bool takes(const Registry& registry, const Op& op, const NamedAttrs& attrs, DType dtype);

}  // namespace hg
