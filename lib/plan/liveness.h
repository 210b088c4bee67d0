// SPDX-License-Identifier: Apache-2.0
// Live bytes at each schedule position, estimated from one plan of the same sizes. Fast enough to
// compare thousands of schedules; the planner decides exactly.
#pragma once

#include <vector>

#include "lib/plan/plan.h"

namespace hg {

class Liveness {
 public:
  // `plan` must be a plan of `graph`; both must outlive this object.
  Liveness(const Graph& graph, const Plan& plan);

  // A tensor in the arena, from the position that computes it to its last reader.
  struct Span {
    ValueId value = kNoValue;
    int first = 0, last = 0;
    std::vector<int> readers;  // positions, ascending; includes reads through views
  };
  struct Profile {
    std::vector<Span> spans;
    std::vector<int64_t> live;    // bytes at each position
    std::vector<int64_t> across;  // of these, bytes of values computed earlier
    int64_t peak = 0;
    int peak_at = 0;
    // Spans of a value that owns memory, ordered by `first`.
    std::vector<std::vector<int>> spans_of;
  };
  Profile profile(const NodeOrder& schedule) const;

  const Graph& graph() const { return *graph_; }
  const Plan& plan() const { return *plan_; }
  // Returns the value that owns the memory of `id`, or kNoValue if it is not in the arena of this
  // part.
  ValueId root(ValueId id) const { return roots_[id]; }
  int64_t bytes(ValueId root) const { return bytes_[root]; }
  // Nodes that only make views of this value, in order.
  const std::vector<int32_t>& views(ValueId root) const { return views_[root]; }
  bool is_view(int32_t node) const { return is_view_[node]; }
  // Cost of one run of the node, in operations.
  double cost(int32_t node) const { return cost_[node]; }
  int64_t workspace(int32_t node) const { return workspace_[node]; }

 private:
  const Graph* graph_;
  const Plan* plan_;
  std::vector<ValueId> roots_;
  std::vector<int64_t> bytes_;
  std::vector<char> forever_, is_view_;
  std::vector<std::vector<int32_t>> views_;
  std::vector<double> cost_;
  std::vector<int64_t> workspace_;
};

}  // namespace hg
