// SPDX-License-Identifier: Apache-2.0
// The blocks of a plan while it is made: the steps that each lives for, and the last position of
// the schedule that reads any value in it.
#pragma once

#include <string_view>
#include <vector>

#include "lib/plan/plan.h"

namespace hg {

class BlockList {
 public:
  explicit BlockList(Plan& plan) : plan_(&plan) {}  // whose blocks these are

  // One that lives from the next step on.
  Place add(std::string_view name, int64_t bytes, Side side);
  // Lives until this step at least.
  void extend(int32_t block, int step);
  void extend(const PlacedTensor& value, int step) {
    if (holds(value.place)) extend(value.place.block, step);
  }
  // A value in it is read at this position.
  void note_reader(const Place& place, int position);
  int last_reader(int32_t block) const { return last_reader_[block]; }
  // No step is added any more: what is read from this position on, by later parts, as an output or
  // by an assignment, lives to the end.
  void close(int position);

 private:
  bool holds(const Place& place) const {
    return place.kind == Place::Kind::arena && place.index == plan_->part;
  }

  Plan* plan_;
  std::vector<int> last_reader_;  // by block
};

}  // namespace hg
