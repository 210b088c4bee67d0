// SPDX-License-Identifier: Apache-2.0
#include "lib/run/memory.h"

#include <algorithm>
#include <cstdint>

#include "lib/graph/border.h"

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
  const int64_t taken = packed.memory.bytes();
  // Adds an entry only when its memory exists and will be filled.
  Pending* const pending = at_once ? nullptr : &pending_[value];
  if (pending != nullptr)
    pending->fills.reserve(pending->fills.size() + 1);
  else
    fill(to);
  packed_.emplace(source.data, std::move(packed));
  bytes_ += taken;
  if (pending == nullptr) return to;
  pending->value = value;
  pending->bytes += bytes;
  pending->owner = source.owner;
  pending->fills.emplace_back(to, std::move(fill));
  return to;
}

Status SharedPacks::fill(const ParallelFor& parallel, const std::function<void(ValueId)>& done) {
  struct Work {
    std::vector<Pending*> order;
    const std::function<void(ValueId)>* done;
  } work{{}, &done};
  std::erase_if(pending_, [](const auto& entry) { return entry.second.fills.empty(); });
  for (auto& [value, pending] : pending_) work.order.push_back(&pending);
  if (work.order.empty()) return {};
  std::sort(work.order.begin(), work.order.end(), [](const Pending* a, const Pending* b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->value < b->value;
  });
  parallel.run(
      parallel.host, static_cast<int64_t>(work.order.size()),
      [](void* arg, int64_t i) {
        const Work& all = *static_cast<const Work*>(arg);
        Pending& pending = *all.order[i];
        const Status status = or_no_memory([&]() -> Status {
          for (const auto& [to, write] : pending.fills) write(to);
          (*all.done)(pending.value);
          return {};
        });
        pending.is_done = status.ok();
      },
      &work);
  std::erase_if(pending_, [](const auto& entry) { return entry.second.is_done; });
  return pending_.empty() ? Status() : Status::no_memory();
}

}  // namespace hg
