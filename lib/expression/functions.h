// SPDX-License-Identifier: Apache-2.0
// What the names of functions in a kernel's text stand for: an elementwise op of the registry, or
// one of the few that are made of several.
#pragma once

#include <string_view>

#include "hg/op.h"

namespace hg {

// The op under this name or its other one: min is minimum, max maximum, select where. Null: none.
const Op* function_op(const Registry& registry, std::string_view name);

// Whether each element of the op's one result is made of the elements at its place, also where an
// expansion into such ops says so. `attrs` are those of the call.
bool is_function_of_elements(const Registry& registry, const Op& op, const NamedAttrs& attrs);

// Whether the op takes tensors of this dtype.
bool takes(const Registry& registry, const Op& op, const NamedAttrs& attrs, DType dtype);

}  // namespace hg
