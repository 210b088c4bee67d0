// SPDX-License-Identifier: Apache-2.0
// Here, once: std::variant's code is large, and most files of the converter hold items.
#include "converter/item.h"

namespace hg::convert {

Item::Item(const Item&) = default;
Item::Item(Item&&) noexcept = default;
Item& Item::operator=(const Item&) = default;
Item& Item::operator=(Item&&) noexcept = default;
Item::~Item() = default;

}  // namespace hg::convert
