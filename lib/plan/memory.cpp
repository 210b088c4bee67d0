// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/memory.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace hg {
namespace {

int64_t live_bytes_bound(std::span<const Lifetime> blocks) {
  int steps = 0;
  for (const Lifetime& block : blocks) steps = std::max(steps, block.last + 1);
  std::vector<int64_t> change(static_cast<size_t>(steps) + 1, 0);
  for (const Lifetime& block : blocks) {
    change[static_cast<size_t>(block.first)] += align_up(block.bytes);
    change[static_cast<size_t>(block.last) + 1] -= align_up(block.bytes);
  }
  int64_t live = 0, most = 0;
  for (const int64_t bytes : change) most = std::max(most, live += bytes);
  return most;
}

enum class Fit { first, best };

// Puts the blocks, in this order, into the first or the tightest gap between placed blocks that live
// at the same time.
Arena place(std::span<const Lifetime> blocks, std::span<const int> order, Fit fit) {
  Arena arena;
  arena.offsets.assign(blocks.size(), 0);
  std::vector<int> placed;  // sorted by offset
  placed.reserve(blocks.size());
  for (const int index : order) {
    const Lifetime& block = blocks[static_cast<size_t>(index)];
    const int64_t bytes = align_up(block.bytes);
    if (bytes == 0) continue;
    int64_t end = 0;  // of what is placed below
    int64_t found = -1, found_gap = std::numeric_limits<int64_t>::max();
    for (const int other : placed) {
      const Lifetime& neighbour = blocks[static_cast<size_t>(other)];
      if (neighbour.last < block.first || block.last < neighbour.first) continue;
      const int64_t offset = arena.offsets[static_cast<size_t>(other)];
      const int64_t gap = offset - end;
      if (gap >= bytes && gap < found_gap) {
        found = end;
        found_gap = gap;
        if (fit == Fit::first) break;
      }
      end = std::max(end, offset + align_up(neighbour.bytes));
    }
    const int64_t offset = found >= 0 ? found : end;
    arena.offsets[static_cast<size_t>(index)] = offset;
    arena.bytes = std::max(arena.bytes, offset + bytes);
    const auto position = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [&](int64_t value, int p) { return value < arena.offsets[static_cast<size_t>(p)]; });
    placed.insert(position, index);
  }
  return arena;
}

}  // namespace

Arena plan_memory(std::span<const Lifetime> blocks) {
  const int64_t lower_bound = live_bytes_bound(blocks);
  const auto size = [&](int i) { return blocks[static_cast<size_t>(i)].bytes; };
  const auto span = [&](int i) {
    return int64_t{blocks[static_cast<size_t>(i)].last} - blocks[static_cast<size_t>(i)].first;
  };
  std::vector<int> order(blocks.size());
  Arena best;
  best.bytes = std::numeric_limits<int64_t>::max();
  const auto attempt = [&](auto before) {
    for (const Fit fit : {Fit::best, Fit::first}) {
      if (best.bytes == lower_bound) return;
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), before);
      Arena arena = place(blocks, order, fit);
      if (arena.bytes < best.bytes) best = std::move(arena);
    }
  };
  attempt([&](int a, int b) { return size(a) > size(b); });
  attempt([&](int a, int b) {  // by area in the plane of steps and bytes
    return static_cast<double>(size(a)) * static_cast<double>(span(a) + 1) >
           static_cast<double>(size(b)) * static_cast<double>(span(b) + 1);
  });
  attempt([&](int a, int b) { return span(a) > span(b); });
  attempt([&](int a, int b) {
    return blocks[static_cast<size_t>(a)].first < blocks[static_cast<size_t>(b)].first;
  });
  best.lower_bound = lower_bound;
  return best;
}

}  // namespace hg
