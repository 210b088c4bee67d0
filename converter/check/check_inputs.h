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
// Fills the i-th input by `chosen[i]`, or by default if null. Fills integers by `integers` unless
// it is null.
Inputs make_inputs(std::span<const InputSpec> specs, const Binding& sizes, const Job& job,
                   std::span<const Recipe* const> chosen, uint64_t seed,
                   const Draw* integers = nullptr);
// Returns the draws to try until libtorch accepts one: all fillings, and integers limited by the
// sizes.
std::vector<Draw> draws(std::span<const InputSpec> specs, const Binding& sizes);
bool is_integer_input(const InputSpec& spec);
// Returns whether a symbol occurs only in first dims.
bool is_batch(std::span<const InputSpec> specs, const std::string& symbol);
// Returns the sizes to check: those of the job, and two for each other symbol of the inputs.
std::vector<Binding> check_sizes(std::span<const InputSpec> specs, const Job& job);
std::vector<InputSpec> input_specs(const Graph& graph);
// "n=2, s=5"
std::string describe_sizes(const Binding& sizes);
Bindings bindings_of(const Binding& sizes);

}  // namespace hg::convert
