// SPDX-License-Identifier: Apache-2.0
// Words of a command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hg::tools {

// Removes surrounding spaces.
std::string_view trim(std::string_view text);
// Splits at commas outside parentheses and trims the parts: min(n, 4) is one part. "" is one empty
// part.
std::vector<std::string_view> split(std::string_view text);
// The name closest in spelling to `name`; empty if none is close.
std::string closest_name(std::string_view name, const std::vector<std::string>& names);
// `a job has no "modle"; it has model, inputs` for a key of a batch job that is not among
// `known`, or "".
std::string unknown_key(std::string_view key, const std::vector<std::string>& known);

// Joins at least three lines "NAME: TYPE" that differ only in one number of the name, if the numbers
// are consecutive: "past.{0..29}.key: f32[n]".
std::vector<std::string> join_numbered(const std::vector<std::string>& lines);

}  // namespace hg::tools
