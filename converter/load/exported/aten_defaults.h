// SPDX-License-Identifier: Apache-2.0
// What arguments of aten ops are when a call does not give them: torch.export leaves them out.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "converter/interpret/item.h"

namespace hg::convert {

// The arguments with a default, in the order of the schema, of "aten::sum" and "dim_IntList".
std::vector<std::pair<std::string, Item>> aten_defaults(std::string_view kind,
                                                        std::string_view overload);

}  // namespace hg::convert
