// SPDX-License-Identifier: Apache-2.0
// Default arguments of aten ops, which torch.export omits from calls.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "converter/core/item.h"

namespace hg::convert {

// Returns the arguments with defaults, in schema order, for kind and overload such as "aten::sum"
// and "dim_IntList".
std::vector<std::pair<std::string, Item>> aten_defaults(std::string_view kind,
                                                        std::string_view overload);

}  // namespace hg::convert
