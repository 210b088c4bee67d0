// SPDX-License-Identifier: Apache-2.0
// Chooses sizes to try if libtorch or the file rejects the sizes of the check.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "converter/check/check_inputs.h"

namespace hg::convert {

// Returns other sizes for symbols that the job does not fix. First come multiples of the job's
// examples and sizes from the numbers in `reason`, with which libtorch rejected `asked`; then sizes
// by number of elements, fewest first. Inputs and values of the graph stay small. Batch symbols
// never repeat their size from the `earlier` case; other symbols avoid it.
std::vector<Binding> fitting_sizes(std::span<const InputSpec> specs, const Job& job,
                                   const Graph& graph, const Binding& asked,
                                   std::string_view reason, const std::optional<Binding>& earlier);

// Returns sizes for the same symbols that all guards of the graph admit, small ones first. The
// search is bounded. Preferably no symbol repeats its size from the earlier case; otherwise no
// batch symbol does and some other does not. With `may_repeat_batches`, it suffices that some
// symbol does not.
std::vector<Binding> admitted_sizes(std::span<const InputSpec> specs, const Job& job,
                                    const Graph& graph, const Binding& asked,
                                    const std::optional<Binding>& earlier, bool may_repeat_batches);

// Returns whether the file itself rejects these sizes, so that libtorch may reject them also.
bool is_guarded(const Graph& graph, const Binding& sizes);
bool is_guarded(const Graph& graph, const Bindings& sizes);

}  // namespace hg::convert
