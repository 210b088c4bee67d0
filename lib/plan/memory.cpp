// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/memory.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "lib/plan/sort_falling.h"

namespace hg {
namespace {

int64_t live_bytes_bound(std::span<const Lifetime> blocks) {
  int steps = 0;
  for (const Lifetime& block : blocks) steps = std::max(steps, block.last + 1);
  std::vector<int64_t> change(steps + 1, 0);
  for (const Lifetime& block : blocks) {
    change[block.first] += align_up(block.bytes);
    change[block.last + 1] -= align_up(block.bytes);
  }
  int64_t live = 0, most = 0;
  for (const int64_t bytes : change) most = std::max(most, live += bytes);
  return most;
}

enum class Fit { first, best };

// Places a block at the end of the last gap below `height`, if one is large enough.
struct FromTop {
  std::vector<bool> blocks;
  int64_t height = 0;
};

// Places the blocks in this order, each in the first or the tightest gap between placed blocks that
// are alive at the same time.
Arena place(std::span<const Lifetime> blocks, std::span<const int> order, Fit fit,
            const FromTop* from_top = nullptr) {
  Arena arena;
  arena.offsets.assign(blocks.size(), 0);
  std::vector<int> placed;  // sorted by offset
  placed.reserve(blocks.size());
  for (const int index : order) {
    const Lifetime& block = blocks[index];
    const int64_t bytes = align_up(block.bytes);
    if (bytes == 0) continue;
    const bool at_top = from_top != nullptr && from_top->blocks[index];
    int64_t end = 0;  // end of the blocks placed below
    int64_t found = -1, found_gap = std::numeric_limits<int64_t>::max();
    for (const int other : placed) {
      const Lifetime& neighbour = blocks[other];
      if (neighbour.last < block.first || block.last < neighbour.first) continue;
      const int64_t offset = arena.offsets[other];
      const int64_t gap = offset - end;
      if (at_top) {
        if (gap >= bytes) found = offset - bytes;
      } else if (gap >= bytes && gap < found_gap) {
        found = end;
        found_gap = gap;
        if (fit == Fit::first) break;
      }
      end = std::max(end, offset + align_up(neighbour.bytes));
    }
    if (at_top && from_top->height - end >= bytes) found = from_top->height - bytes;
    const int64_t offset = found >= 0 ? found : end;
    arena.offsets[index] = offset;
    arena.bytes = std::max(arena.bytes, offset + bytes);
    const auto position =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [&](int64_t value, int p) { return value < arena.offsets[p]; });
    placed.insert(position, index);
  }
  return arena;
}

// Places the blocks in the order of their first steps, as an allocator would that knows when each
// is freed: each in the tightest gap. Takes n log n steps.
Arena place_by_start(std::span<const Lifetime> blocks, std::span<const int> order) {
  Arena arena;
  arena.offsets.assign(blocks.size(), 0);
  std::map<int64_t, int64_t> gaps;                // offset to bytes, below the top
  std::set<std::pair<int64_t, int64_t>> by_size;  // bytes and offset of the gaps
  std::set<std::pair<int, int>> live;             // last step and index
  int64_t top = 0;
  const auto remove = [&](std::map<int64_t, int64_t>::iterator gap) {
    by_size.erase({gap->second, gap->first});
    return gaps.erase(gap);
  };
  const auto release = [&](int64_t offset, int64_t bytes) {
    auto after = gaps.lower_bound(offset);
    if (after != gaps.end() && after->first == offset + bytes) {
      bytes += after->second;
      after = remove(after);
    }
    if (after != gaps.begin())
      if (const auto before = std::prev(after); before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        remove(before);
      }
    if (offset + bytes == top) {
      top = offset;
      return;
    }
    gaps[offset] = bytes;
    by_size.insert({bytes, offset});
  };
  for (const int index : order) {
    const Lifetime& block = blocks[index];
    const int64_t bytes = align_up(block.bytes);
    if (bytes == 0) continue;
    while (!live.empty() && live.begin()->first < block.first) {
      const int freed = live.begin()->second;
      live.erase(live.begin());
      release(arena.offsets[freed], align_up(blocks[freed].bytes));
    }
    live.insert({block.last, index});
    const auto tightest = by_size.lower_bound({bytes, 0});
    if (tightest == by_size.end()) {
      arena.offsets[index] = top;
      top += bytes;
      arena.bytes = std::max(arena.bytes, top);
      continue;
    }
    const auto [size, offset] = *tightest;
    arena.offsets[index] = offset;
    remove(gaps.find(offset));
    if (size == bytes) continue;
    gaps[offset + bytes] = size - bytes;
    by_size.insert({size - bytes, offset + bytes});
  }
  return arena;
}

// Improves the layout step by step while the arena exceeds the bound. Of a block at the top and the
// blocks alive at the same time, either one is placed from the other end, or the top block is
// placed before another one. Deterministic.
void improve(std::span<const Lifetime> blocks, std::vector<int> order, Arena& best) {
  constexpr int64_t kWork = 1'000'000;  // comparisons of blocks: a few milliseconds
  const auto count = static_cast<int64_t>(blocks.size());
  const auto offset = [](const Arena& arena, int i) { return arena.offsets[i]; };
  const auto block = [&](int i) -> const Lifetime& { return blocks[i]; };
  std::erase_if(order, [&](int i) { return block(i).bytes == 0; });
  FromTop from_top{std::vector<bool>(blocks.size(), false), best.lower_bound};
  Arena current = place(blocks, order, Fit::best, &from_top);
  uint32_t random = 1;
  const auto next = [&random](size_t below) {
    random = random * 1664525 + 1013904223;  // Numerical Recipes, 7.1
    return static_cast<size_t>(random >> 8) % below;
  };
  for (int64_t work = 0; work < kWork && best.bytes > best.lower_bound; work += count * count) {
    std::vector<size_t> top, beside;  // positions in the order
    for (size_t k = 0; k < order.size(); ++k)
      if (offset(current, order[k]) + align_up(block(order[k]).bytes) == current.bytes)
        top.push_back(k);
    const size_t moved = top[next(top.size())];
    const Lifetime& high = block(order[moved]);
    for (size_t k = 0; k < order.size(); ++k)
      if (block(order[k]).last >= high.first && block(order[k]).first <= high.last)
        beside.push_back(k);
    std::vector<int> changed = order;
    const size_t other = beside[next(beside.size())];
    const auto flipped = static_cast<size_t>(order[other]);
    const bool flips = other >= moved || next(2) == 0;
    if (flips)
      from_top.blocks[flipped] = !from_top.blocks[flipped];
    else
      std::rotate(changed.begin() + static_cast<int64_t>(other),
                  changed.begin() + static_cast<int64_t>(moved),
                  changed.begin() + static_cast<int64_t>(moved) + 1);
    Arena arena = place(blocks, changed, Fit::best, &from_top);
    if (arena.bytes > current.bytes) {
      if (flips) from_top.blocks[flipped] = !from_top.blocks[flipped];
      continue;
    }
    order = std::move(changed);
    current = std::move(arena);
    if (current.bytes >= best.bytes) continue;
    current.lower_bound = best.lower_bound;
    best = current;
  }
}

}  // namespace

Arena plan_memory(std::span<const Lifetime> blocks) {
  const int64_t lower_bound = live_bytes_bound(blocks);
  std::vector<double> sizes, spans, areas, starts;  // areas in the plane of steps and bytes
  for (const Lifetime& block : blocks) {
    sizes.push_back(static_cast<double>(block.bytes));
    spans.push_back(static_cast<double>(block.last) - static_cast<double>(block.first));
    areas.push_back(sizes.back() * (spans.back() + 1));
    starts.push_back(-static_cast<double>(block.first));
  }
  std::vector<std::vector<int>> orders;
  Arena best;
  best.bytes = std::numeric_limits<int64_t>::max();
  // The attempts below compare all pairs of blocks. A graph with thousands of blocks affords few.
  constexpr int64_t kMostPairs = 64'000'000;
  const auto count = static_cast<int64_t>(blocks.size());
  const bool is_large = 10 * count * count > kMostPairs;
  int64_t left = is_large ? kMostPairs / (count * count) : 10;
  if (is_large) best = place_by_start(blocks, falling(starts));
  const auto attempt = [&](std::vector<int> first_order) {
    const std::vector<int>& order = orders.emplace_back(std::move(first_order));
    for (const Fit fit : {Fit::best, Fit::first}) {
      if (best.bytes == lower_bound || left-- <= 0) return;
      Arena arena = place(blocks, order, fit);
      if (arena.bytes < best.bytes) best = std::move(arena);
    }
  };
  std::vector<int> by_size_and_span = falling(spans);
  sort_falling(by_size_and_span, sizes);
  attempt(std::move(by_size_and_span));
  for (const auto& keys : {sizes, areas, spans, starts}) attempt(falling(keys));
  best.lower_bound = lower_bound;
  if (!is_large)
    for (std::vector<int>& order : orders) improve(blocks, std::move(order), best);
  return best;
}

}  // namespace hg
