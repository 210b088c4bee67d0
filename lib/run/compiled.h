// SPDX-License-Identifier: Apache-2.0
// What sessions of one model with equal options have in common: the graph as the passes left it,
// and the weights packed for kernels. Found through the graph, it lives as long as one of them.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hg/options.h"
#include "lib/graph/access.h"
#include "lib/plan/plan.h"
#include "lib/run/memory.h"
#include "lib/run/tuning.h"

namespace hg {

// A state whose elements are elsewhere, or no longer needed.
inline void drop_data(State& state) {
  state.data.owner.reset();
  state.data.tensor.data = nullptr;
}

class Compiled final : public GraphCompanion {
 public:
  explicit Compiled(const SessionOptions& options)
      : packs(options.allocator), tuning(options.tuning), options_(options) {}

  // Of sessions of this graph, or of an unchanged copy, whose options are equal where they decide
  // what is compiled; new where there is none. Any thread may ask.
  static std::shared_ptr<Compiled> of(const Graph& graph, const SessionOptions& options);
  // The same for a body of control flow in this one's graph; with `lock` held.
  std::shared_ptr<Compiled> of_body(const std::shared_ptr<Graph>& body,
                                    const SessionOptions& options);

  // Held by whoever compiles or plans, until all that a plan refers to is packed; that of a body
  // comes after that of its graph. Without it only the number of packed bytes is read, and what
  // never changes once it is made.
  std::mutex lock;
  bool is_made = false;
  size_t first_made_state = 0;             // from there on they are the passes'; never changes
  std::vector<std::string> outer_symbols;  // that only the graph around knows; never changes
  // States that runs change have no data here: each session starts from what the model has.
  Graph graph;
  SharedPacks packs;
  Tuning tuning;
  // Where weights that the passes made have gone once they were packed: the only plan that there
  // is, with which a session begins that comes later.
  std::shared_ptr<const Plan> plan;
  // Plans for the graph as it is, the newest last: those who come later take them over.
  static constexpr size_t kMostPlans = 8;
  std::vector<std::shared_ptr<const Plan>> plans;

 private:
  SessionOptions options_;  // of the session that came first
  std::map<std::shared_ptr<Graph>, std::shared_ptr<Compiled>> bodies_;
};

}  // namespace hg
