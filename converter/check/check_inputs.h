// SPDX-License-Identifier: Apache-2.0
// Chooses the sizes of symbols for the check, and seeded inputs of these sizes.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "converter/check/reference.h"
#include "converter/check/seeded.h"
#include "converter/core/imported.h"
#include "converter/core/job.h"

namespace hg::convert {

using Binding = std::vector<std::pair<std::string, int64_t>>;

struct Inputs {
  std::vector<TensorData> data;
  std::vector<ReferenceInput> reference;
};

Inputs make_inputs(std::span<const InputSpec> specs, const Binding& sizes, const Job& job,
                   const Draw& draw);
// The i-th input as `chosen[i]` says, null for the usual way; integers as `integers` says, unless
// it is null.
Inputs make_inputs(std::span<const InputSpec> specs, const Binding& sizes, const Job& job,
                   std::span<const Recipe* const> chosen, uint64_t seed,
                   const Draw* integers = nullptr);
// What to try in turn, until libtorch takes it: all fillings, and integers that the sizes limit.
std::vector<Draw> draws(std::span<const InputSpec> specs, const Binding& sizes);
bool is_integer_input(const InputSpec& spec);
// Whether a symbol stands in first dims alone.
bool is_batch(std::span<const InputSpec> specs, const std::string& symbol);
// The sizes to check with: the job's, and two for each other symbol of the inputs.
std::vector<Binding> check_sizes(std::span<const InputSpec> specs, const Job& job);
std::vector<InputSpec> input_specs(const Graph& graph);
// "n=2, s=5"
std::string describe_sizes(const Binding& sizes);
Bindings bindings_of(const Binding& sizes);

}  // namespace hg::convert
