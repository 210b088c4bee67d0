// SPDX-License-Identifier: Apache-2.0
// Sums over ranks (TrainOptions::all_reduce) as nodes of a step. Each sum begins where its value is
// made, small ones together where the last of them is; the nodes hang on one another, so that all
// ranks begin them in one order, whatever order their plans take. One node waits for all, and what
// reads a sum comes after that.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hg/train.h"

namespace hg {

// What the nodes of one trainer call. It keeps its place: they know its address.
class Reducer {
 public:
  // `registry` has the ops and kernels of the step.
  static Result<std::unique_ptr<Reducer>> create(const AllReduce& host, const Registry& registry);
  // Those, and the nodes' own.
  const Registry& registry() const { return registry_; }
  int ranks() const { return host_.ranks; }
  // Replaces values of a graph by their sums; the names are what the host is told.
  Status add_to(Graph& graph, std::span<const std::pair<std::string, Value*>> values) const;
  // After a run that failed, wherever: why the host's function did, or ok. No sum that was begun is
  // in the run's memory any more.
  Status take_failure() const;

  // For the nodes: false where the host failed.
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
