// SPDX-License-Identifier: Apache-2.0
// Until which position of a schedule each value is read. A result that is computed again has last
// uses of its own: those of the earlier one end before it.
#pragma once

#include <limits>
#include <vector>

#include "lib/plan/plan.h"

namespace hg {

class LastUses {
 public:
  static constexpr int kForever = std::numeric_limits<int>::max();

  // Outputs, what is assigned, and what nodes behind the schedule's last one read stay forever;
  // with `keeps_all` every result does.
  LastUses(const Graph& graph, const NodeOrder& schedule, bool keeps_all);

  // Of the results that the value has now; -1 where nobody reads it.
  int of(ValueId id) const { return last_[id]; }
  // From here on the results of the node at this position are those made there. In order.
  void begin(int position);

 private:
  const Graph* graph_;
  const NodeOrder* schedule_;
  bool keeps_all_;
  std::vector<int> last_;               // by value
  std::vector<std::vector<int>> next_;  // of the results of each position
};

}  // namespace hg
