// SPDX-License-Identifier: Apache-2.0
// Sums over ranks (TrainOptions::all_reduce) as nodes of a step. Each sum begins when its value is
// computed; small values are summed together when the last of them is computed. The nodes depend on
// each other, so that all ranks begin the sums in the same order, whatever the order of their
// plans. One node waits for all sums, and readers of a sum run after it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hg/train.h"

namespace hg {

// The callbacks of one trainer's nodes. Must not move, because nodes store its address.
class Reducer {
 public:
  // `registry` contains the ops and kernels of the step.
  static Result<std::unique_ptr<Reducer>> create(const AllReduce& host, const Registry& registry);
  // These ops and kernels, and those of the nodes.
  const Registry& registry() const { return registry_; }
  int ranks() const { return host_.ranks; }
  // Replaces values of a graph by their sums. The host receives the names.
  Status add_to(Graph& graph, std::span<const std::pair<std::string, Value*>> values) const;
  // Called after a failed run, whatever failed. Returns the error of the host's function, or ok.
  // Afterwards no pending sum uses the run's memory.
  Status take_failure() const;

  // For the nodes: false if the host failed.
  bool begin(std::string_view name, const Tensor& data) const;
  bool wait() const;

 private:
  Reducer(const AllReduce& host, const Registry& registry) : host_(host), registry_(registry) {}
  AllReduce host_;
  Registry registry_;
  mutable Status failure_;
  mutable bool is_summing_ = false;  // between begin() and wait()
};

}  // namespace hg
