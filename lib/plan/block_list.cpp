// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/block_list.h"

#include <algorithm>

namespace hg {

Place BlockList::add(std::string_view name, int64_t bytes, Side side) {
  const auto step = static_cast<int>(plan_->steps.size());
  plan_->blocks.push_back({std::string(name), side, {step, step, bytes}, 0});
  last_reader_.push_back(-1);
  Place place;
  place.kind = Place::Kind::arena;
  place.side = side;
  place.index = plan_->part;
  place.block = static_cast<int32_t>(plan_->blocks.size()) - 1;
  return place;
}

void BlockList::extend(int32_t block, int step) {
  Lifetime& lifetime = plan_->blocks[block].lifetime;
  lifetime.last = std::max(lifetime.last, step);
}

void BlockList::note_reader(const Place& place, int position) {
  if (!holds(place)) return;
  int& last = last_reader_[place.block];
  last = std::max(last, position);
}

void BlockList::close(int position) {
  const int end = std::max(0, static_cast<int>(plan_->steps.size()) - 1);
  for (size_t i = 0; i < plan_->blocks.size(); ++i) {
    Lifetime& lifetime = plan_->blocks[i].lifetime;
    if (last_reader_[i] >= position) lifetime.last = end;
    lifetime.last = std::min(lifetime.last, end);
    lifetime.first = std::min(lifetime.first, end);
  }
}

}  // namespace hg
