// SPDX-License-Identifier: Apache-2.0
#include "lib/run/memory.h"

#include <algorithm>
#include <cstdint>

namespace hg {

void* SessionPacks::pack(std::string_view kernel, ValueId value, int64_t bytes,
                         std::function<void(void* to)> fill, bool at_once) {
  auto [entry, is_new] = packed_.try_emplace({std::string(kernel), value});
  if (!is_new) return entry->second.data();
  if (!entry->second.allocate(allocator_, bytes)) {
    packed_.erase(entry);
    return nullptr;
  }
  void* const to = entry->second.data();
  bytes_ += entry->second.bytes();
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

void SessionPacks::fill(const ParallelFor& parallel, const std::function<void(ValueId)>& done) {
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
        const Pending& pending = *all.order[static_cast<size_t>(i)];
        for (const auto& [to, write] : pending.fills) write(to);
        (*all.done)(pending.value);
      },
      &work);
  pending_.clear();
}

}  // namespace hg
