// SPDX-License-Identifier: Apache-2.0
// Numbers that ops require of integer inputs, such as pivots of a factorization: Row::numbers lists
// them.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "converter/check/seeded.h"
#include "converter/core/imported.h"
#include "converter/core/script.h"

namespace hg::convert {

// Sets the rule of each integer input whose numbers an op of the program receives unchanged.
void set_number_rules(std::span<InputSpec> specs, const ScriptProgram& program);
// Whether the numbers depend on a limit: they sum up to it, or do not exceed it.
bool has_limit(const NumberRule& rule);
// Returns limits to try, by group of rules. Parts of an input sum up to one of its sizes; other
// limits are sizes of any input.
std::vector<std::map<size_t, int64_t>> limits_of_rules(std::span<const InputSpec> specs,
                                                       const Bindings& sizes);
// Returns numbers that follow the rule and lie in the range. Returns nothing if none are found.
std::optional<TensorData> ruled_input(const NumberRule& rule, DType dtype, const Sizes& shape,
                                      const std::optional<std::pair<double, double>>& range,
                                      int64_t limit, uint64_t seed);
// Returns "numbers that sum up to a size"; empty if there is no rule.
std::string describe(const NumberRule& rule);

}  // namespace hg::convert
