// SPDX-License-Identifier: Apache-2.0
// Which sizes to try if libtorch or the file rejects the sizes of the check.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "converter/check/check_inputs.h"

namespace hg::convert {

// Other sizes for the symbols that the job gives none, those with the fewest elements first, but
// before them multiples of the job's examples and the numbers in `reason`, for which libtorch
// refused `asked`. With the sizes of an earlier case no symbol of batches repeats its size there,
// and others rather do not.
std::vector<Binding> fitting_sizes(std::span<const InputSpec> specs, const Job& job,
                                   const Binding& asked, std::string_view reason,
                                   const std::optional<Binding>& earlier);

// Sizes for the same symbols that all guards of the graph admit, small ones first; the search is
// bounded. No symbol repeats its size of an earlier case, or rather: none of batches does and some
// other does not; where `may_repeat_batches`, some symbol does not.
std::vector<Binding> admitted_sizes(std::span<const InputSpec> specs, const Job& job,
                                    const Graph& graph, const Binding& asked,
                                    const std::optional<Binding>& earlier, bool may_repeat_batches);

// Whether the file says itself that it is not for these sizes, so that refusing them is right.
bool is_guarded(const Graph& graph, const Binding& sizes);
bool is_guarded(const Graph& graph, const Bindings& sizes);

}  // namespace hg::convert
