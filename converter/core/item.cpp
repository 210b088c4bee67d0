// SPDX-License-Identifier: Apache-2.0
// Out of line, because the code of std::variant is large and most converter files use items.
#include "converter/core/item.h"

namespace hg::convert {

Item::Item(const Item&) = default;
Item::Item(Item&&) noexcept = default;
Item& Item::operator=(const Item&) = default;
Item& Item::operator=(Item&&) noexcept = default;
Item::~Item() = default;

}  // namespace hg::convert
