// SPDX-License-Identifier: Apache-2.0
// Ops that find and count elements: unique, searchsorted, isin, bincount, histc.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "kernels/reduce/order.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

// -- unique: items are slices along dim, or single elements ---------------------------------------

struct UniquePlan {
  Lines lines;  // item i is element i of every line
  bool consecutive = false;
};

Status prepare_unique(PrepareContext& c) {
  UniquePlan plan;
  plan.consecutive = c.attrs().flag("consecutive");
  const Sizes& shape = c.in(0).shape;
  if (c.attrs().has("dim") && shape.rank() > 0)
    plan.lines = lines_of(shape, c.attrs().axis("dim", shape.rank()));
  else
    plan.lines.length = shape.count();
  c.set_workspace(plan.lines.length * 3 * 8);
  c.make_state(plan);
  return {};
}

// -1, 0 or 1; NaN is last and equals nothing.
template <class T>
int compare_items(const T* x, const Lines& lines, int64_t a, int64_t b) {
  for (int64_t line = 0; line < lines.count; ++line) {
    const T* at = x + lines.start(line);
    const auto p = wide(at[a * lines.stride]), q = wide(at[b * lines.stride]);
    if (p < q) return -1;
    if (p > q) return 1;
    if (p != q) return p == p ? -1 : q == q ? 1 : a < b ? -1 : 1;
  }
  return 0;
}

// The sorted items, and whether each differs from the preceding one.
struct OrderedItems {
  const int64_t* item;
  const int64_t* is_new;
};
OrderedItems order_items(const RunContext& c) {
  const UniquePlan& plan = c.state<UniquePlan>();
  const int64_t n = plan.lines.length;
  int64_t* const order = c.workspace<int64_t>();
  int64_t* const spare = order + n;
  if (plan.consecutive) std::iota(order, order + n, 0);
  const auto tell = [&](const auto& differ) {
    for (int64_t i = 0; i < n; ++i) spare[i] = i == 0 || differ(order[i - 1], order[i]);
  };
  if (plan.lines.count == 1) {
    for_key(c.in(0).dtype, [&]<class Key>() {
      Key* const keys = reinterpret_cast<Key*>(spare + n);
      read_keys(c.in(0), 0, 1, n, keys);
      sort_places(keys, n, false, order, spare);
      tell([&](int64_t a, int64_t b) { return keys[a] != keys[b]; });
    });
  } else {
    for_type(c.in(0).dtype, [&](auto zero) {
      const auto* x = c.in(0).as<const decltype(zero)>();
      const auto compare = [&](int64_t a, int64_t b) { return compare_items(x, plan.lines, a, b); };
      if (!plan.consecutive) {
        std::iota(order, order + n, 0);
        merge_sort(order, spare, n, [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
      }
      tell([&](int64_t a, int64_t b) { return compare(a, b) != 0; });
    });
  }
  return {order, spare};
}

// The number of different integers in x, counted with one bit per integer from the smallest to the
// largest; nullopt if the range is too large for the workspace.
std::optional<int64_t> count_integers(const RunContext& c) {
  const int64_t n = c.in(0).count();
  if (is_float(c.in(0).dtype) || n == 0) return std::nullopt;
  uint64_t* const bits = c.workspace<uint64_t>();
  int64_t* const keys = c.workspace<int64_t>() + 2 * n;
  read_keys(c.in(0), 0, 1, n, keys);
  const auto [low, high] = std::minmax_element(keys, keys + n);
  const uint64_t first = static_cast<uint64_t>(*low);
  const uint64_t words = (static_cast<uint64_t>(*high) - first) / 64 + 1;
  if (words > static_cast<uint64_t>(2 * n)) return std::nullopt;
  std::fill_n(bits, words, 0);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t at = static_cast<uint64_t>(keys[i]) - first;
    bits[at / 64] |= uint64_t{1} << at % 64;
  }
  int64_t count = 0;
  for (uint64_t i = 0; i < words; ++i) count += std::popcount(bits[i]);
  return count;
}

// Whether element i > 0 of a list differs from the preceding one. NaN differs from everything.
template <class T>
bool differs(const T* x, int64_t i) {
  return wide(x[i - 1]) != wide(x[i]);
}

// Runs of equal elements of a list, without branches on the elements.
template <class T>
int64_t count_runs(const T* x, int64_t n) {
  int64_t count = n > 0 ? 1 : 0;
  for (int64_t i = 1; i < n; ++i) count += differs(x, i) ? 1 : 0;
  return count;
}
template <class T>
void find_runs(const T* x, int64_t n, T* values, int64_t* inverse, int64_t* counts) {
  int64_t place = 0;
  T first = n > 0 ? x[0] : T();  // of the run: -0 equals 0
  for (int64_t i = 0; i < n; ++i) {
    const bool is_new = i > 0 && differs(x, i);
    place += is_new ? 1 : 0;
    first = is_new ? x[i] : first;
    values[place] = first;
    inverse[i] = place;
    counts[place] = i + 1;  // the end of the run
  }
  for (int64_t k = n > 0 ? place : 0; k > 0; --k) counts[k] -= counts[k - 1];
}
bool finds_runs(const UniquePlan& plan) { return plan.consecutive && plan.lines.count == 1; }

void measure_unique(const RunContext& c, std::span<int64_t> dims) noexcept {
  const UniquePlan& plan = c.state<UniquePlan>();
  std::optional<int64_t> count;
  if (finds_runs(plan))
    for_type(c.in(0).dtype, [&](auto zero) {
      count = count_runs(c.in(0).as<const decltype(zero)>(), plan.lines.length);
    });
  else if (plan.lines.count == 1)
    count = count_integers(c);
  if (!count) {
    const OrderedItems items = order_items(c);
    count = std::accumulate(items.is_new, items.is_new + plan.lines.length, int64_t{0});
  }
  if (!dims.empty()) dims[0] = *count;
}
void run_unique(const RunContext& c) noexcept {
  const UniquePlan& plan = c.state<UniquePlan>();
  int64_t* inverse = c.out(1).as<int64_t>();
  int64_t* counts = c.out(2).as<int64_t>();
  if (finds_runs(plan))
    return for_type(c.in(0).dtype, [&](auto zero) {
      using T = decltype(zero);
      find_runs(c.in(0).as<const T>(), plan.lines.length, c.out(0).as<T>(), inverse, counts);
    });
  const OrderedItems items = order_items(c);
  Lines to = plan.lines;
  to.length = c.out(2).count();
  for_type(c.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* x = c.in(0).as<const T>();
    T* values = c.out(0).as<T>();
    int64_t place = -1;
    for (int64_t i = 0; i < plan.lines.length; ++i) {
      const int64_t item = items.item[i];
      if (items.is_new[i] != 0) {
        counts[++place] = 0;
        for (int64_t line = 0; line < to.count; ++line)
          values[to.start(line) + place * to.stride] =
              x[plan.lines.start(line) + item * plan.lines.stride];
      }
      ++counts[place];
      inverse[item] = place;
    }
  });
}

// -- searchsorted ---------------------------------------------------------------------------------

Status prepare_searchsorted(PrepareContext& c) {
  c.make_state(c.attrs().flag("right"));
  return {};
}
void run_searchsorted(const RunContext& c) noexcept {
  const bool right = c.state<bool>();
  const Tensor &sorted = c.in(0), &values = c.in(1);
  const int64_t n = sorted.shape.back();
  const int64_t each =
      sorted.rank() > 1 ? values.shape.back() : std::max<int64_t>(1, values.count());
  int64_t* y = c.out(0).as<int64_t>();
  for_type(sorted.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* from = sorted.as<const T>();
    const T* x = values.as<const T>();
    c.parallel_for(values.count(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* line = from + i / each * n;
        const auto value = wide(x[i]);
        int64_t low = 0, high = n;
        while (low < high) {
          const int64_t middle = low + (high - low) / 2;
          const auto other = wide(line[middle]);
          const bool beyond = right ? !(other > value) : !(other >= value);
          if (beyond)
            low = middle + 1;
          else
            high = middle;
        }
        y[i] = low;
      }
    });
  });
}

// The sorted elements of a set. `end` is the position of the first NaN, because NaN is in no set.
template <class Key>
struct SortedSet {
  const Key *begin, *end;
};
constexpr int64_t room_of_set(int64_t n) { return n * 3 * 8; }
template <class Key>
SortedSet<Key> set_in(void* room, int64_t n) {
  Key* const sorted = reinterpret_cast<Key*>(static_cast<int64_t*>(room) + n);
  return {sorted, std::partition_point(sorted, sorted + n, [](Key k) { return k == k; })};
}
void sort_set(const Tensor& set, void* room) {
  for_key(set.dtype, [&]<class Key>() {
    const int64_t n = set.count();
    int64_t* const order = static_cast<int64_t*>(room);
    Key* const sorted = reinterpret_cast<Key*>(order + n);
    Key* const keys = reinterpret_cast<Key*>(order + 2 * n);
    read_keys(set, 0, 1, n, keys);
    sort_places(keys, n, false, order, order + n);
    for (int64_t i = 0; i < n; ++i) sorted[i] = keys[order[i]];
  });
}

struct IsinPlan {
  void* constant_set = nullptr;  // sorted before the first run
};
Status prepare_isin(PrepareContext& c) {
  const Tensor set = c.in(1);
  const int64_t room = room_of_set(set.shape.count());
  IsinPlan plan;
  plan.constant_set = c.pack(1, "isin", room, [set](void* to) { sort_set(set, to); });
  if (plan.constant_set == nullptr) c.set_workspace(room);
  c.make_state(plan);
  return {};
}
// Searches each element in the set.
void run_isin(const RunContext& c) noexcept {
  void* room = c.state<IsinPlan>().constant_set;
  if (room == nullptr) {
    room = c.workspace<void>();
    sort_set(c.in(1), room);
  }
  uint8_t* y = c.out(0).as<uint8_t>();
  for_key(c.in(0).dtype, [&]<class Key>() {
    const auto [begin, end] = set_in<Key>(room, c.in(1).count());
    c.parallel_for(c.in(0).count(), 4096,
                   [&, begin = begin, end = end](int64_t first, int64_t last) {
                     constexpr int64_t kPart = 256;
                     Key part[kPart];
                     for (int64_t i = first; i < last; i += kPart) {
                       const int64_t count = std::min(kPart, last - i);
                       read_keys(c.in(0), i, 1, count, part);
                       for (int64_t k = 0; k < count; ++k) {
                         const Key* const place = std::lower_bound(begin, end, part[k]);
                         y[i + k] = place != end && *place == part[k];
                       }
                     }
                   });
  });
}

// -- counting -------------------------------------------------------------------------------------

Status prepare_bincount(PrepareContext& c) {
  c.make_state(c.attrs().integer("minlength"));
  return {};
}
void measure_bincount(const RunContext& c, std::span<int64_t> dims) noexcept {
  int64_t size = c.state<int64_t>();
  const int64_t* x = c.in(0).as<const int64_t>();
  for (int64_t i = 0; i < c.in(0).count(); ++i) {
    if (x[i] == std::numeric_limits<int64_t>::max()) return c.fail("an element is too large");
    size = std::max(size, x[i] + 1);
  }
  if (!dims.empty()) dims[0] = size;
}
template <class T>
void count_into(const RunContext& c, const T* weights) {
  const int64_t size = c.out(0).count();
  T* y = c.out(0).as<T>();
  std::fill(y, y + size, T(0));
  const int64_t* x = c.in(0).as<const int64_t>();
  for (int64_t i = 0; i < c.in(0).count(); ++i) {
    if (x[i] < 0 || x[i] >= size) return c.fail("an element is negative");
    y[x[i]] += weights != nullptr ? weights[i] : T(1);
  }
}
void run_bincount(const RunContext& c) noexcept {
  if (!c.has(1)) return count_into<int64_t>(c, nullptr);
  if (c.out(0).dtype == f32) return count_into(c, c.in(1).as<const float>());
  count_into(c, c.in(1).as<const double>());
}

struct Range {
  double low = 0, high = 0;
};
Status prepare_histc(PrepareContext& c) {
  c.make_state(Range{c.attrs().real("min"), c.attrs().real("max")});
  return {};
}
void run_histc(const RunContext& c) noexcept {
  const int64_t bins = c.out(0).count(), n = c.in(0).count();
  for_float(c.in(0).dtype, [&]<class T>() {
    using Number = Wide<T>;
    const T* x = c.in(0).as<const T>();
    T* y = c.out(0).as<T>();
    const Range given = c.state<Range>();
    Number low = wide(narrowed<T>(given.low)), high = wide(narrowed<T>(given.high));
    if (low == high && n > 0) {
      low = high = wide(x[0]);
      for (int64_t i = 1; i < n; ++i) {
        low = std::min(low, wide(x[i]));
        high = std::max(high, wide(x[i]));
      }
    }
    if (low == high) {
      low -= 1;
      high += 1;
    }
    std::fill(y, y + bins, narrowed<T>(0.0));
    if (!std::isfinite(high - low)) return c.fail("the range is not finite");
    // As in torch, each step is rounded to the dtype of x, which decides at the edges of bins.
    const auto rounded = [](Number value) { return wide(narrowed<T>(value)); };
    const Number range = rounded(high - low), count = rounded(static_cast<Number>(bins));
    for (int64_t i = 0; i < n; ++i) {
      const Number value = wide(x[i]);
      if (!(value >= low && value <= high)) continue;
      const Number place = rounded(rounded(rounded(value - low) * count) / range);
      const int64_t bin = std::min(static_cast<int64_t>(place), bins - 1);
      y[bin] = narrowed<T>(wide(y[bin]) + 1);
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "unique",
     .name = "merge",
     .prepare = prepare_unique,
     .run = run_unique,
     .measure = measure_unique},
    {.op = "searchsorted",
     .name = "bisection",
     .prepare = prepare_searchsorted,
     .run = run_searchsorted},
    {.op = "isin", .name = "bisection", .prepare = prepare_isin, .run = run_isin},
    {.op = "bincount",
     .name = "loop",
     .prepare = prepare_bincount,
     .run = run_bincount,
     .measure = measure_bincount},
    {.op = "histc", .name = "loop", .prepare = prepare_histc, .run = run_histc},
};

}  // namespace

std::span<const KernelDef> search() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
