// SPDX-License-Identifier: Apache-2.0
#include "lib/run/memory.h"

#include <algorithm>
#include <cstdint>

#include "lib/graph/border.h"
#include "lib/model/crc32c.h"

namespace hg {

namespace {

uint32_t sum_of(std::span<const std::byte> bytes) { return crc32c(bytes.data(), bytes.size()); }

}  // namespace

uint32_t sum_of_origin(const LaterData::Origin& origin, uint32_t source) {
  const uint32_t sums[] = {source, sum_of(std::as_bytes(std::span(origin.parameters)))};
  return crc32c(sums, sizeof sums);
}

void SharedPacks::use_file(std::unique_ptr<PackedFile> file, std::string prefix) {
  has_file_ = true;
  file_ = std::move(file);
  prefix_ = std::move(prefix);
}

void* SharedPacks::pack(const Source& source, ValueId value, int64_t bytes,
                        std::function<void(void* to)> fill, bool at_once, bool& is_new) {
  is_new = false;
  const auto [begin, end] = packed_.equal_range(source.bytes.data());
  for (auto known = begin; known != end; ++known) {
    const Packed& other = known->second;
    const bool is_same_owner =
        !other.owner.owner_before(source.owner) && !source.owner.owner_before(other.owner);
    if (is_same_owner && other.key == source.key) return other.bytes.data();
  }
  Packed packed;
  packed.key = source.key;
  packed.owner = source.owner;
  packed.recorded = source.sum;
  if (file_ != nullptr) packed.entry = file_->take(prefix_ + source.key, bytes);
  if (packed.entry != nullptr) {
    packed.bytes = packed.entry->bytes;
  } else {
    if (!packed.memory.allocate(allocator_, bytes)) return nullptr;
    packed.bytes = {static_cast<std::byte*>(packed.memory.data()), static_cast<size_t>(bytes)};
  }
  is_new = true;
  void* const to = packed.bytes.data();
  const int64_t taken = packed.entry != nullptr ? bytes : packed.memory.bytes();
  // Adds an entry only when its memory exists and will be filled.
  Pending* const pending = at_once ? nullptr : &pending_[value];
  if (pending != nullptr)
    pending->fills.reserve(pending->fills.size() + 1);
  else
    fill_one(packed, source.bytes, source.later.get(), fill);
  Packed& kept = packed_.emplace(source.bytes.data(), std::move(packed))->second;
  bytes_ += taken;
  if (pending == nullptr) return to;
  pending->value = value;
  pending->bytes += bytes;
  pending->owner = source.owner;
  pending->fills.push_back({&kept, source.later, source.bytes, std::move(fill)});
  return to;
}

bool SharedPacks::is_right(const Packed& packed, uint32_t source) {
  const PackedEntry* const entry = packed.entry;
  return entry != nullptr && entry->source == source &&
         crc32c(packed.bytes.data(), packed.bytes.size()) == entry->sum;
}

// A recorded checksum spares reading the source, but never describes a pack that was made here:
// the source may be damaged.
void SharedPacks::fill_one(Packed& packed, std::span<const std::byte> source, LaterData* later,
                           const std::function<void(void* to)>& fill) {
  if (packed.is_filled) return;
  packed.is_mapped = packed.recorded.has_value() && is_right(packed, *packed.recorded);
  if (packed.is_mapped) {
    packed.source = *packed.recorded;
  } else if (has_file_) {
    packed.source = later != nullptr
                        ? sum_of_origin(later->origin(), sum_of(span_of(later->origin().source)))
                        : sum_of(source);
    packed.is_mapped = packed.recorded != packed.source && is_right(packed, packed.source);
  }
  if (packed.is_mapped) {
    mapped_bytes_ += static_cast<int64_t>(packed.bytes.size());
  } else if (later != nullptr) {
    later->use([&] { fill(packed.bytes.data()); });
  } else {
    fill(packed.bytes.data());
  }
  packed.is_filled = true;
}

bool SharedPacks::list(std::vector<PackedEntry>& entries) const {
  bool has_new = false;
  for (const auto& [source, packed] : packed_) {
    if (!packed.is_filled) continue;
    has_new |= !packed.is_mapped;
    entries.push_back({prefix_ + packed.key, packed.bytes, packed.source});
  }
  return has_new;
}

Status SharedPacks::fill(const ParallelFor& parallel, const std::function<void(ValueId)>& done) {
  struct Work {
    SharedPacks* packs;
    std::vector<Pending*> order;
    const std::function<void(ValueId)>* done;
  } work{this, {}, &done};
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
          for (const auto& [packed, later, source, write] : pending.fills)
            all.packs->fill_one(*packed, source, later.get(), write);
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
