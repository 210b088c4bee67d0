// SPDX-License-Identifier: Apache-2.0
// Operators, subscripts and attributes of values, with the semantics of Python and jinja2's
// sandbox.
#pragma once

#include <optional>
#include <string_view>

#include "lib/text/jinja/call.h"

namespace hg::jinja {

// + - * / // % **
Result<Value> binary(Meter& meter, std::string_view sign, const Value& a, const Value& b);
// + -
Result<Value> unary(std::string_view sign, const Value& of);
// == != < <= > >= in, not in
Result<bool> compare(Meter& meter, std::string_view sign, const Value& a, const Value& b);

// value[key]; undefined if there is no such item.
Result<Value> subscript(RunState& state, const Value& of, const Value& key);
// value.name, or undefined. Methods of Python's types are bound functions.
Result<Value> attribute(RunState& state, const Value& of, std::string_view name);
// value[begin:end:step]; absent parts are null.
Result<Value> slice(Meter& meter, const Value& of, const Value* begin, const Value* end,
                    const Value* step);

// An error about an operand that is undefined.
Status undefined_error(const Value& value);

}  // namespace hg::jinja
