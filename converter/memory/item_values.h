// SPDX-License-Identifier: Apache-2.0
// Items as numbers, their equality and their text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "converter/core/item.h"
#include "converter/memory/alias.h"

namespace hg::convert {

// The type of the object that stands for a value that is never read.
inline constexpr std::string_view kUndefined = "undefined";
// The type of the object that stands for text of which sizes or data decide a part.
inline constexpr std::string_view kUnknownText = "text that sizes or data decide";

std::optional<Scalar> scalar_of(const Item& item);  // also of tensors that hold one known number
Item item_of(Memory& memory, const Scalar& scalar);
// The number as a tensor of rank 0: i64, f64 or bool.
Value number_value(Memory& memory, const Item& item);
// Equality as Python has it; no value when only sizes or data decide.
std::optional<bool> equal(const Item& a, const Item& b);
std::string describe(const Item& item);  // for messages

}  // namespace hg::convert
