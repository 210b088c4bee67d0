// SPDX-License-Identifier: Apache-2.0
// Data shared by equal models with equal options: the graph, its variants in use and, in a cache,
// their compiled sessions and plans.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/graph/access.h"
#include "lib/nn/lower.h"

namespace hg::nn {

// What a variant computes in addition to the outputs.
struct VariantKey {
  bool differentiates = false;
  // per output: whether its gradient is given; empty: ones, for a single output
  std::vector<bool> seeds;
  std::vector<std::string> hooks;  // paths of hooked values
  friend bool operator==(const VariantKey&, const VariantKey&) = default;
};

// A graph for one kind of call. Its inputs are data, parameters, states and output gradients, by
// name.
struct Variant {
  VariantKey key;
  Model model;
  // Order of the outputs: the model's, gradients of parameters, gradients of other values, new
  // contents of states, hooked values.
  std::vector<size_t> trainable;                      // in Lowered::states: those with gradients
  std::vector<size_t> moved;                          // in Lowered::states
  std::vector<std::shared_ptr<GraphCompanion>> kept;  // compiled data of sessions
};
// Name of the input for an output gradient: "gradient of scores".
std::string seed_name(std::string_view output);

struct Prepared {
  Lowered lowered;
  // The inputs and parameters that a call without gradients and hooks needs.
  std::vector<std::string> inputs, outputs;
  std::vector<size_t> parameters, states;  // in Lowered::states
  std::mutex mutex;                        // guards the members below
  bool is_cached = false;
  std::vector<std::shared_ptr<Variant>> variants;
};

Result<std::shared_ptr<Prepared>> prepare(const Block& model, const LowerOptions& options,
                                          const std::optional<PlanCache>& cache);
// Returns the variant; creates it if needed. Thread-safe.
Result<std::shared_ptr<Variant>> variant_of(Prepared& prepared, const VariantKey& key);
// Call after a session was created or planned.
void keep_plans(Prepared& prepared, Variant& variant);

}  // namespace hg::nn
