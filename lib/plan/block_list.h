// SPDX-License-Identifier: Apache-2.0
// The blocks of a plan under construction: the steps for which each block lives, and the last
// schedule position that reads a value in it.
#pragma once

#include <string_view>
#include <vector>

#include "lib/plan/plan.h"

namespace hg {

class BlockList {
 public:
  explicit BlockList(Plan& plan) : plan_(&plan) {}  // the blocks are those of `plan`

  // Adds a block that lives from the next step on.
  Place add(std::string_view name, int64_t bytes, Side side);
  // Extends the block's life to at least this step.
  void extend(int32_t block, int step);
  void extend(const PlacedTensor& value, int step) {
    if (holds(value.place)) extend(value.place.block, step);
  }
  // Records a read of a value in the block at this position.
  void note_reader(const Place& place, int position);
  int last_reader(int32_t block) const { return last_reader_[block]; }
  // Called after the last step: blocks read from this position on (by later parts, outputs or
  // assignments) live to the end.
  void close(int position);

 private:
  bool holds(const Place& place) const {
    return place.kind == Place::Kind::arena && place.index == plan_->part;
  }

  Plan* plan_;
  std::vector<int> last_reader_;  // per block
};

}  // namespace hg
