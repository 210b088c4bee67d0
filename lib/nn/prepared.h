// SPDX-License-Identifier: Apache-2.0
// What equal models with equal options have in common: the graph, the variants of it that were
// asked for, and, in a cache, what sessions of them compiled and planned.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/graph/access.h"
#include "lib/nn/lower.h"

namespace hg::nn {

// What a variant computes beside the outputs.
struct VariantKey {
  bool differentiates = false;
  std::vector<bool> seeds;         // by output: whether its gradient is given; else ones, for one
  std::vector<std::string> hooks;  // paths of values that hooks look at
  friend bool operator==(const VariantKey&, const VariantKey&) = default;
};

// A graph that answers a kind of call. Its inputs are data, parameters, states and seeds by name.
struct Variant {
  VariantKey key;
  Model model;
  // Outputs follow one another: those of the model, gradients of parameters, of other values, what
  // states become, and what hooks look at.
  std::vector<size_t> trainable;                      // of Lowered::states: those with gradients
  std::vector<size_t> moved;                          // of Lowered::states
  std::vector<std::shared_ptr<GraphCompanion>> kept;  // what sessions compiled
};
// "gradient of scores", as an input.
std::string seed_name(std::string_view output);

struct Prepared {
  Lowered lowered;
  // What calls need, without gradients and hooks.
  std::vector<std::string> inputs, outputs;
  std::vector<size_t> parameters, states;  // of Lowered::states
  std::mutex mutex;                        // of what follows
  bool is_cached = false;
  std::vector<std::shared_ptr<Variant>> variants;
};

Result<std::shared_ptr<Prepared>> prepare(const Block& model, const LowerOptions& options,
                                          const std::optional<PlanCache>& cache);
// Made where there is none yet. Any thread.
Result<std::shared_ptr<Variant>> variant_of(Prepared& prepared, const VariantKey& key);
// After a session was made or has planned.
void keep_plans(Prepared& prepared, Variant& variant);

}  // namespace hg::nn
