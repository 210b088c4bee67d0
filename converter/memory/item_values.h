// SPDX-License-Identifier: Apache-2.0
// Items as numbers; equality and text of items.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "converter/core/item.h"
#include "converter/memory/alias.h"

namespace hg::convert {

// Type of the object that represents a value that is never read.
inline constexpr std::string_view kUndefined = "undefined";
// Type of the object that represents text that depends on sizes or data.
inline constexpr std::string_view kUnknownText = "text that sizes or data decide";

std::optional<Scalar> scalar_of(const Item& item);  // also for tensors with a single known number
Item item_of(Memory& memory, const Scalar& scalar);
// Returns the number as a tensor of rank 0: i64, f64 or bool.
Value number_value(Memory& memory, const Item& item);
// Python's equality; nothing if only sizes or data decide.
std::optional<bool> equal(const Item& a, const Item& b);
std::string describe(const Item& item);  // for messages

}  // namespace hg::convert
