// SPDX-License-Identifier: Apache-2.0
// Sorting and selection along one dim. Each task sorts lines in its own scratch memory.
#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/reduce/order.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kTasks = 64;  // each with scratch memory of its own

struct SortPlan {
  Lines lines, out_lines;
  int64_t tasks = 1;
  int64_t k = 0;
  bool descending = false;
};

Status prepare_lines(PrepareContext& c, SortPlan plan, bool flatten) {
  const Sizes& shape = c.in(0).shape;
  if (flatten) {
    plan.lines.length = shape.count();
  } else {
    const int axis = c.attrs().axis("dim", shape.rank());
    plan.lines = lines_of(shape, axis);
    plan.out_lines = plan.lines;
    plan.out_lines.length =
        shape.rank() > 0 && c.out(0).rank() == shape.rank() ? c.out(0).shape[axis] : 1;
  }
  plan.tasks = std::max<int64_t>(1, std::min(kTasks, plan.lines.count));
  c.set_workspace(plan.tasks * plan.lines.length * 3 * 8);
  c.make_state(plan);
  return {};
}
Status prepare_sort(PrepareContext& c) {
  SortPlan plan;
  plan.descending = c.attrs().flag("descending");
  return prepare_lines(c, plan, false);
}
Status prepare_topk(PrepareContext& c) {
  SortPlan plan;
  plan.descending = c.attrs().flag("largest");
  return prepare_lines(c, plan, false);
}
Status prepare_kthvalue(PrepareContext& c) {
  SortPlan plan;
  plan.k = c.attrs().integer("k") - 1;
  return prepare_lines(c, plan, false);
}
Status prepare_one(PrepareContext& c) { return prepare_lines(c, {}, !c.attrs().has("dim")); }

// Partitions the order at position k: the element that belongs there is at k, and no smaller one
// follows.
template <class Key>
void place_one(const SortPlan& plan, const Key* keys, int64_t* order, int64_t k) {
  std::nth_element(order, order + k, order + plan.lines.length, Order<Key>{keys, plan.descending});
}

// The next position from i on whose key is less than `bar`, or n. Most keys are not, which vector
// comparisons test many at a time.
template <bool kDescending, class Key>
int64_t next_before(const Key* keys, int64_t i, int64_t n, Key bar) {
  constexpr int64_t kTogether = 16;
  if (bar == bar)
    for (; i + kTogether <= n; i += kTogether) {
      int any = 0;
      for (int64_t j = 0; j < kTogether; ++j)
        any |= kDescending ? !(keys[i + j] <= bar) : keys[i + j] < bar;
      if (any) break;
    }
  while (i < n && !is_before(keys[i], bar, kDescending)) ++i;
  return i;
}

// Writes the first k positions of the sorted order to `order`, in any order, for a small k.
// Collects candidates, and from time to time drops those that are not among the k smallest.
template <bool kDescending, class Key>
void choose_few(const Key* keys, int64_t n, int64_t* order, int64_t k, int64_t room) {
  const Order<Key> first{keys, kDescending};
  int64_t count = 0;
  for (; count < room; ++count) order[count] = count;
  for (int64_t i = room;;) {
    std::nth_element(order, order + k - 1, order + count, first);
    count = k;
    const Key bar = keys[order[k - 1]];  // an equal key comes later in the order
    while (count < room && (i = next_before<kDescending>(keys, i, n, bar)) < n)
      order[count++] = i++;
    if (i == n) break;
  }
  std::nth_element(order, order + k - 1, order + count, first);
}

// Likewise in order, for very small k: inserts each position whose key is less than the last one.
template <bool kDescending, class Key>
void insert_few(const Key* keys, int64_t n, int64_t* order, int64_t k) {
  const auto insert = [&](int64_t place, int64_t at) {
    for (; at > 0 && is_before(keys[place], keys[order[at - 1]], kDescending); --at)
      order[at] = order[at - 1];
    order[at] = place;
  };
  for (int64_t i = 0; i < k; ++i) insert(i, i);
  for (int64_t i = k; (i = next_before<kDescending>(keys, i, n, keys[order[k - 1]])) < n; ++i)
    insert(i, k - 1);
}

// The first k positions of the sorted order.
template <class Key>
void select_line(const SortPlan& plan, const Key* keys, int64_t* order, int64_t* spare, int64_t k) {
  constexpr int64_t kHandful = 16;
  const int64_t n = plan.lines.length, room = std::max<int64_t>(2 * k, 64);
  if (k == n) return sort_places(keys, n, plan.descending, order, spare);
  if (k > 0 && k <= kHandful)
    return plan.descending ? insert_few<true>(keys, n, order, k)
                           : insert_few<false>(keys, n, order, k);
  if (k > 0 && 4 * room <= n) {
    plan.descending ? choose_few<true>(keys, n, order, k, room)
                    : choose_few<false>(keys, n, order, k, room);
  } else {
    std::iota(order, order + n, 0);
    place_one(plan, keys, order, k);
  }
  merge_sort(order, spare, k, Order<Key>{keys, plan.descending});
}

// Calls f(keys, order, spare, line) for each line; `spare` has as many positions as the line.
template <class Key, class F>
void each_line(const RunContext& c, const F& f) {
  const SortPlan& plan = c.state<SortPlan>();
  const int64_t n = plan.lines.length;
  c.parallel_for(plan.tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      int64_t* order = c.workspace<int64_t>() + task * n * 3;
      Key* keys = reinterpret_cast<Key*>(order + 2 * n);
      for (int64_t line = task; line < plan.lines.count; line += plan.tasks) {
        read_keys(c.in(0), plan.lines.start(line), plan.lines.stride, n, keys);
        f(keys, order, order + n, line);
      }
    }
  });
}

// Writes elements order[i] of a line as values and indices, from element `at` on, `step` apart.
template <class Key>
void report(const RunContext& c, const Key* keys, const int64_t* order, int64_t n, int64_t at,
            int64_t step) {
  int64_t* indices = c.out(1).as<int64_t>() + at;
  for (int64_t i = 0; i < n; ++i) indices[i * step] = order[i];
  for_type(c.out(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    T* values = c.out(0).as<T>() + at;
    for (int64_t i = 0; i < n; ++i) values[i * step] = narrowed<T>(keys[order[i]]);
  });
}

void run_first(const RunContext& c) noexcept {
  const SortPlan& plan = c.state<SortPlan>();
  const Lines& to = plan.out_lines;
  for_key(c.in(0).dtype, [&]<class Key>() {
    each_line<Key>(c, [&](const Key* keys, int64_t* order, int64_t* spare, int64_t line) {
      select_line(plan, keys, order, spare, to.length);
      report(c, keys, order, to.length, to.start(line), to.stride);
    });
  });
}

// pick(keys, n): which position of the order to return
template <class Pick>
void run_pick(const RunContext& c, const Pick& pick) {
  const SortPlan& plan = c.state<SortPlan>();
  const int64_t n = plan.lines.length;
  for_key(c.in(0).dtype, [&]<class Key>() {
    if (n == 0) {  // the median of nothing
      if (plan.lines.count == 0 || c.out(0).count() == 0) return;
      constexpr Key kNothing = std::numeric_limits<Key>::quiet_NaN();  // 0 for integers
      const int64_t first = 0;
      return report(c, &kNothing, &first, 1, 0, 1);
    }
    each_line<Key>(c, [&](const Key* keys, int64_t* order, int64_t*, int64_t line) {
      const int64_t k = pick(keys, n);
      std::iota(order, order + n, 0);
      place_one(plan, keys, order, k);
      report(c, keys, order + k, 1, line, 1);
    });
  });
}

void run_kthvalue(const RunContext& c) noexcept {
  const int64_t k = c.state<SortPlan>().k;
  run_pick(c, [k](const auto*, int64_t) { return k; });
}
// The number of elements that are not NaN; they come first in the order.
template <class Key>
int64_t numbers(const Key* keys, int64_t n) {
  return std::count_if(keys, keys + n, [](Key key) { return key == key; });
}
void run_median(const RunContext& c) noexcept {
  run_pick(c, [](const auto* keys, int64_t n) {
    const int64_t count = numbers(keys, n);
    return count < n ? count : (n - 1) / 2;
  });
}
void run_nanmedian(const RunContext& c) noexcept {
  run_pick(c, [](const auto* keys, int64_t n) {
    const int64_t count = numbers(keys, n);
    return count == 0 ? int64_t{0} : (count - 1) / 2;
  });
}
// The longest run of equal elements, the first of several. PyTorch sorts with std::sort and <,
// which does not order NaN: it stays where the algorithm leaves it, and so do elements on both
// sides of it. This kernel does the same. It reads no further than the line: a NaN ends each loop
// of std::sort that continues while elements are smaller or larger.
template <class Key>
int64_t place_of_mode(const Key* keys, int64_t* order, int64_t n) {
  std::iota(order, order + n, 0);
  std::sort(order, order + n, [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
  int64_t best = 0, best_length = 0;
  for (int64_t begin = 0; begin < n;) {
    int64_t end = begin + 1;
    while (end < n && keys[order[end]] == keys[order[end - 1]]) ++end;
    if (end - begin > best_length) {
      best_length = end - begin;
      best = end - 1;
    }
    begin = end;
  }
  return best;
}

void run_mode(const RunContext& c) noexcept {
  for_key(c.in(0).dtype, [&]<class Key>() {
    const int64_t n = c.state<SortPlan>().lines.length;
    if (n == 0) return;
    each_line<Key>(c, [&](const Key* keys, int64_t* order, int64_t*, int64_t line) {
      report(c, keys, order + place_of_mode(keys, order, n), 1, line, 1);
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "sort", .name = "merge", .prepare = prepare_sort, .run = run_first},
    {.op = "topk", .name = "select", .prepare = prepare_topk, .run = run_first},
    {.op = "kthvalue", .name = "select", .prepare = prepare_kthvalue, .run = run_kthvalue},
    {.op = "median", .name = "select", .prepare = prepare_one, .run = run_median},
    {.op = "nanmedian", .name = "select", .prepare = prepare_one, .run = run_nanmedian},
    {.op = "mode", .name = "merge", .prepare = prepare_one, .run = run_mode},
};

}  // namespace

std::span<const KernelDef> sort() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
