// SPDX-License-Identifier: Apache-2.0
// Data shared by the sessions of one model with equal options: the compiled graph and the packed
// weights. Found through the graph; lives as long as one of the sessions.
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

// Releases the data of a state that is stored elsewhere or no longer needed.
inline void drop_data(State& state) {
  state.data.owner.reset();
  state.data.tensor.data = nullptr;
}

class Compiled final : public GraphCompanion {
 public:
  explicit Compiled(const SessionOptions& options)
      : packs(options.allocator), tuning(options.tuning), options_(options) {}

  // Returns the object shared by sessions of this graph, or of an unchanged copy, whose options
  // compile the same; creates it if needed. Thread-safe.
  static std::shared_ptr<Compiled> of(const Graph& graph, const SessionOptions& options);
  // The same for a control-flow body of this object's graph. Requires `lock`.
  std::shared_ptr<Compiled> of_body(const std::shared_ptr<Graph>& body,
                                    const SessionOptions& options);

  // Opens the file of SessionOptions::packed. Requires `lock` and the graph, and no packs yet.
  void use_packed_file();
  // Appends the packs of this graph and of its bodies. Returns whether the file of
  // SessionOptions::packed lacks one.
  bool list_packs(std::vector<PackedEntry>& entries);

  // Held while compiling or planning, until everything that a plan refers to is packed. Lock a
  // graph before its bodies. Without it, read only the number of packed bytes and members that
  // never change.
  std::mutex lock;
  bool is_made = false;
  size_t first_made_state = 0;  // index of the first state created by passes; never changes
  // symbols known only to the enclosing graph; never changes
  std::vector<std::string> outer_symbols;
  // States that runs change have no data here: each session starts with the model's values.
  Graph graph;
  SharedPacks packs;
  Tuning tuning;
  // The only plan, if weights created by passes were dropped after packing. Later sessions start
  // with it.
  std::shared_ptr<const Plan> plan;
  // Plans for the current graph, newest last. Later sessions adopt them.
  static constexpr size_t kMostPlans = 8;
  std::vector<std::shared_ptr<const Plan>> plans;

 private:
  SessionOptions options_;  // of the first session
  std::map<std::shared_ptr<Graph>, std::shared_ptr<Compiled>> bodies_;
};

}  // namespace hg
