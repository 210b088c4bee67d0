// SPDX-License-Identifier: Apache-2.0
#include "lib/run/memory.h"

#include <algorithm>
#include <cstdint>

namespace hg {

void* SharedPacks::pack(const Source& source, ValueId value, int64_t bytes,
                        std::function<void(void* to)> fill, bool at_once, bool& is_new) {
  is_new = false;
  const auto [begin, end] = packed_.equal_range(source.data);
  for (auto known = begin; known != end; ++known) {
    const Packed& other = known->second;
    const bool is_same_owner =
        !other.owner.owner_before(source.owner) && !source.owner.owner_before(other.owner);
    if (is_same_owner && other.key == source.key) return other.memory.data();
  }
  Packed packed{source.key, source.owner, {}};
  if (!packed.memory.allocate(allocator_, bytes)) return nullptr;
  is_new = true;
  void* const to = packed.memory.data();
  bytes_ += packed.memory.bytes();
  packed_.emplace(source.data, std::move(packed));
  if (at_once) {
    fill(to);
    return to;
  }
  Pending& pending = pending_[value];
  pending.value = value;
  pending.bytes += bytes;
  pending.fills.emplace_back(to, std::move(fill));
  return to;
}

void SharedPacks::fill(const ParallelFor& parallel, const std::function<void(ValueId)>& done) {
  struct Work {
    std::vector<const Pending*> order;
    const std::function<void(ValueId)>* done;
  } work{{}, &done};
  for (const auto& [value, pending] : pending_) work.order.push_back(&pending);
  if (work.order.empty()) return;
  std::stable_sort(work.order.begin(), work.order.end(),
                   [](const Pending* a, const Pending* b) { return a->bytes > b->bytes; });
  parallel.run(
      parallel.host, static_cast<int64_t>(work.order.size()),
      [](void* arg, int64_t i) {
        const Work& all = *static_cast<const Work*>(arg);
        const Pending& pending = *all.order[i];
        for (const auto& [to, write] : pending.fills) write(to);
        (*all.done)(pending.value);
      },
      &work);
  pending_.clear();
}

}  // namespace hg
