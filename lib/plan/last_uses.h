// SPDX-License-Identifier: Apache-2.0
// The last schedule position that reads each value. A recomputed result has its own last use; the
// earlier result is no longer used.
#pragma once

#include <limits>
#include <vector>

#include "lib/plan/plan.h"

namespace hg {

class LastUses {
 public:
  static constexpr int kForever = std::numeric_limits<int>::max();

  // Outputs, assigned values, and values read by nodes after the schedule live forever; with
  // `keeps_all`, all values do.
  LastUses(const Graph& graph, const NodeOrder& schedule, bool keeps_all);

  // Last use of the value's current result; -1 if unused.
  int of(ValueId id) const { return last_[id]; }
  // From now on, the node's results are those computed at this position. Call in order.
  void begin(int position);

 private:
  const Graph* graph_;
  const NodeOrder* schedule_;
  bool keeps_all_;
  std::vector<int> last_;               // per value
  std::vector<std::vector<int>> next_;  // for the results computed at each position
};

}  // namespace hg
