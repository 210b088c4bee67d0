// SPDX-License-Identifier: Apache-2.0
// Ops that write or accumulate elements at indices. One task combines all values of an element in
// index order, so results do not depend on the number of threads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "hg/kernel.h"
#include "kernels/bytes.h"
#include "kernels/ceil_div.h"
#include "kernels/element.h"
#include "kernels/simd/half_simd.h"
#include "kernels/strided_copy.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr const char* kOutOfRange = "an index is out of range";

enum class Reduce { none, add, prod, amax, amin, mean };

struct Rule {
  int dim = 0;
  Reduce reduce = Reduce::none;
  bool include_self = true;
  bool counts() const { return reduce == Reduce::mean; }
  bool adds() const { return counts() || reduce == Reduce::add || reduce == Reduce::prod; }
};

Rule rule_of(const PrepareContext& c, int dim) {
  Rule rule{dim, Reduce::none, c.attrs().flag("include_self")};
  constexpr std::string_view kNames[] = {"none", "add", "prod", "amax", "amin", "mean"};
  for (int i = 0; i < 6; ++i)
    if (c.attrs().string("reduce") == kNames[i]) rule.reduce = static_cast<Reduce>(i);
  return rule;
}

// The workspace: the number of values per element of y, and f32 sums of 16-bit floats until all
// values are added.
bool is_kept_wide(const Rule& rule, DType dtype) {
  return rule.adds() && (dtype == f16 || dtype == bf16);
}
int dim_of(const PrepareContext& c) { return c.attrs().axis("dim", c.in(0).rank()); }
Status prepare_scatter(PrepareContext& c) {
  const Rule rule = rule_of(c, dim_of(c));
  const int64_t each = (rule.counts() ? int64_t{sizeof(int64_t)} : 0) +
                       (is_kept_wide(rule, c.out(0).dtype) ? int64_t{sizeof(float)} : 0);
  if (each > 0) c.set_workspace(c.out(0).count() * each);
  c.make_state(rule);
  return {};
}
Status prepare_index_reduce(PrepareContext& c) {
  const Rule rule = rule_of(c, c.has(3) ? 0 : dim_of(c));
  if (rule.counts()) c.set_workspace(c.out(0).count() * int64_t{sizeof(int64_t)});
  c.make_state(rule);
  return {};
}

template <class W>
bool is_nan(W value) {
  if constexpr (std::is_floating_point_v<W>)
    return std::isnan(value);
  else
    return false;
}

// Integers wrap around; for bool, sums are `or` and products are `and`.
template <class T>
T combine(T a, T b, Reduce reduce) {
  if (reduce == Reduce::none) return b;
  if constexpr (std::is_same_v<T, bool>) {
    return reduce == Reduce::prod || reduce == Reduce::amin ? a && b : a || b;
  } else {
    using W = Wide<T>;
    const W x = load(&a), y = load(&b);
    W z;
    if (reduce == Reduce::amax || reduce == Reduce::amin) {
      if (is_nan(x))
        z = x;
      else if (is_nan(y))
        z = y;
      else
        z = reduce == Reduce::amax ? std::max(x, y) : std::min(x, y);
    } else if constexpr (std::is_integral_v<W>) {
      const auto u = static_cast<uint64_t>(x), v = static_cast<uint64_t>(y);
      z = static_cast<W>(reduce == Reduce::prod ? u * v : u + v);
    } else {
      z = reduce == Reduce::prod ? x * y : x + y;
    }
    T result;
    store(&result, z);
    return result;
  }
}

// The initial value of an element that is not counted itself.
template <class T>
T identity(Reduce reduce) {
  T result{};
  if constexpr (std::is_same_v<T, bool>) {
    return reduce == Reduce::prod || reduce == Reduce::amin;
  } else {
    using W = Wide<T>;
    using Limits = std::numeric_limits<W>;
    W value{0};
    if (reduce == Reduce::prod) value = W{1};
    if (reduce == Reduce::amax) value = Limits::has_infinity ? -Limits::infinity() : Limits::min();
    if (reduce == Reduce::amin) value = Limits::has_infinity ? Limits::infinity() : Limits::max();
    store(&result, value);
    return result;
  }
}

template <class T>
T divided(T sum, int64_t count) {
  if constexpr (std::is_same_v<T, bool>) {
    return sum;
  } else if constexpr (std::is_integral_v<T>) {  // rounds down
    const int64_t s = static_cast<int64_t>(sum);
    return static_cast<T>(s / count - (s % count < 0 ? 1 : 0));
  } else {
    T result;
    store(&result, load(&sum) / static_cast<Wide<T>>(count));
    return result;
  }
}

// Calls f with the reduction; for the most frequent ones, as a constant.
template <class F>
void with_reduce(Reduce reduce, const F& f) {
  if (reduce == Reduce::add) f(std::integral_constant<Reduce, Reduce::add>());
#if !defined(HG_SMALL)
  else if (reduce == Reduce::amax)
    f(std::integral_constant<Reduce, Reduce::amax>());
  else if (reduce == Reduce::amin)
    f(std::integral_constant<Reduce, Reduce::amin>());
#endif
  else
    f(reduce);
}

// Converts an element of src to one of y, which may be kept wide.
template <class Y, class T>
Y taken(const T& element) {
  if constexpr (std::is_same_v<T, Y>)
    return element;
  else
    return load(&element);
}

template <class Y, class T, class Reduction>
void combine_row(Y* to, const T* from, int64_t n, Reduction reduce) {
  for (int64_t j = 0; j < n; ++j) to[j] = combine(to[j], taken<Y>(from[j]), reduce);
}

// Position of an element: `along` the dim of a rule, on the line `next` to it.
struct Steps {
  int64_t along = 0, next = 0;
};
// Applies all updates of some lines of y: element (i, j) of src goes to index (i, j).
struct Lines {
  Steps index, src, y;
  int64_t n = 1, size = 1;  // of src and of y, along the dim
};

// Calls f(i, j, position in y) for `width` lines. Returns false if an index is out of range.
template <class F>
bool for_each(const Lines& lines, int64_t width, const int64_t* index, const F& f) {
  for (int64_t i = 0; i < lines.n; ++i)
    for (int64_t j = 0; j < width; ++j) {
      const int64_t at = index[i * lines.index.along + j * lines.index.next];
      if (at < 0 || at >= lines.size) return false;
      f(i, j, at * lines.y.along + j * lines.y.next);
    }
  return true;
}
bool all_in_range(const Lines& lines, int64_t width, const int64_t* index) {
  const int64_t different = lines.index.next == 0 ? 1 : width;  // of lines
  return for_each(lines, different, index, [](int64_t, int64_t, int64_t) {});
}
void count_each(const Lines& lines, int64_t width, const int64_t* index, int64_t* counts) {
  for_each(lines, width, index, [&](int64_t, int64_t, int64_t at) { counts[at] = 0; });
  for_each(lines, width, index, [&](int64_t, int64_t, int64_t at) { ++counts[at]; });
}

// The indices are in range. (Passes without this check are not faster, and 16 KB larger.)
template <class T, class Y>
void scatter_lines(const Rule& rule, const Lines& lines, int64_t width, const int64_t* index,
                   const T* src, Y* y, int64_t* counts) {
  if (!rule.include_self && rule.reduce != Reduce::none)
    for_each(lines, width, index,
             [&](int64_t, int64_t, int64_t at) { y[at] = identity<Y>(rule.reduce); });
  // An index that was expanded along the lines selects whole rows.
  const bool by_row = lines.index.next == 0 && lines.src.next == 1 && lines.y.next == 1;
  with_reduce(rule.reduce, [&](auto reduce) {
    if constexpr (!std::is_same_v<decltype(reduce), Reduce>) {
      for (int64_t i = 0; by_row && i < lines.n; ++i)
        combine_row(y + index[i * lines.index.along] * lines.y.along, src + i * lines.src.along,
                    width, reduce);
      if (by_row) return;
    }
    for_each(lines, width, index, [&](int64_t i, int64_t j, int64_t at) {
      const T& from = src[i * lines.src.along + j * lines.src.next];
      y[at] = combine(y[at], taken<Y>(from), reduce);
    });
  });
  if (!rule.counts()) return;
  count_each(lines, width, index, counts);
  for_each(lines, width, index, [&](int64_t, int64_t, int64_t at) {
    if (counts[at] == 0) return;
    y[at] = divided(y[at], counts[at] + (rule.include_self ? 1 : 0));
    counts[at] = 0;
  });
}

template <class F>
void for_element(DType dtype, const F& f) {
  if (dtype == boolean) return f.template operator()<bool>();
  for_number(dtype, f);
}

void scatter_run(const RunContext& c) noexcept {
  const Rule& rule = c.state<Rule>();
  const Tensor& y = c.out(0);
  const Tensor& index = c.in(1);
  const Tensor& src = c.in(2);
  if (c.in(0).data != y.data) copy_strided(c, c.in(0), y);
  if (index.count() == 0) return;
  const int rank = index.rank(), dim = rule.dim;
  // A task processes neighboring lines along the last dim, reading each row at once.
  const bool has_strips = rank > 0 && dim != rank - 1;
  const int64_t neighbours = has_strips ? index.shape[rank - 1] : 1;
  const auto steps = [&](const Tensor& t) {
    return Steps{rank > 0 ? t.strides[dim] : 0, has_strips ? t.strides[rank - 1] : 0};
  };
  const int64_t n = rank > 0 ? index.shape[dim] : 1;
  Lines lines{steps(index), steps(src), steps(y), n, rank > 0 ? y.shape[dim] : 1};
  constexpr int64_t kLines = 64;
  const int64_t strips = ceil_div(neighbours, kLines);
  const int64_t tasks = index.count() / n / neighbours * strips;
  // A single line is treated as many lines of one element that go to one line of y, so that the
  // inner loop is the long one.
  const bool is_alone = neighbours == 1;
  if (is_alone) {
    lines = {{0, lines.index.along}, {0, lines.src.along}, {lines.y.along, 0}, 1, lines.size};
  }
  int64_t* counts = rule.counts() ? c.workspace<int64_t>() : nullptr;
  const auto run = [&]<class T, class Y>(const T* from_src, Y* out) {
    const int64_t grain = grain_of(n * std::min(neighbours, kLines));
    c.parallel_for(tasks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % strips * kLines;
        int64_t from = first * lines.index.next, src_from = first * lines.src.next;
        int64_t at = task / strips, to = first * lines.y.next;
        for (int d = has_strips ? rank - 2 : rank - 1; d >= 0; --d) {
          if (d == dim) continue;
          const int64_t i = at % index.shape[d];
          at /= index.shape[d];
          from += i * index.strides[d];
          src_from += i * src.strides[d];
          to += i * y.strides[d];
        }
        const int64_t width = is_alone ? n : std::min(kLines, neighbours - first);
        const int64_t* own = index.as<const int64_t>() + from;
        if (!all_in_range(lines, width, own)) return c.fail(kOutOfRange);
        scatter_lines(rule, lines, width, own, from_src + src_from, out + to,
                      counts != nullptr ? counts + to : nullptr);
      }
    });
  };
  for_element(y.dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      if (is_kept_wide(rule, y.dtype)) {
        int64_t* const room = c.workspace<int64_t>();
        float* const sums = reinterpret_cast<float*>(room + (rule.counts() ? y.count() : 0));
        c.parallel_for(y.count(), 4096, [&](int64_t begin, int64_t end) {
          half_table().widen(end - begin, y.as<T>() + begin, sums + begin);
        });
        run(src.as<const T>(), sums);
        c.parallel_for(y.count(), 4096, [&](int64_t begin, int64_t end) {
          half_table().narrow(end - begin, sums + begin, y.as<T>() + begin);
        });
        return;
      }
    }
    run(src.as<const T>(), y.as<T>());
  });
}

constexpr int64_t kStrip = 256;  // elements after dim that a task reads and writes contiguously

// Row i of src: row i of data, or row rows[i] times scale[i]. Rows that are not kept are left out.
template <class T>
struct Source {
  const T* data;
  const int64_t* rows = nullptr;
  const T* scale = nullptr;
  const bool* kept = nullptr;

  // Calls f(row i of data, its scale or null), if the row is kept.
  template <class F>
  void with_row(int64_t i, int64_t inner, const F& f) const {
    if (kept != nullptr && !kept[i]) return;
    f(data + (rows != nullptr ? rows[i] : i) * inner, scale != nullptr ? scale + i : nullptr);
  }
};

// Reduces rows [begin, end) of src into one row of y in registers. Returns how many columns are
// done: whole blocks.
template <class T, class Reduction>
int64_t reduce_blocks(const Source<T>& src, int64_t begin, int64_t end, T* to, int64_t inner,
                      int64_t width, Reduction reduce) {
  int64_t done = 0;
  if constexpr (std::is_floating_point_v<T> && !std::is_same_v<Reduction, Reduce>) {
    constexpr int64_t kBlock = 128 / sizeof(T);
    for (; end - begin > 1 && done + kBlock <= width; done += kBlock) {
      T sums[kBlock];
      std::copy_n(to + done, kBlock, sums);
      for (int64_t i = begin; i < end; ++i)
        src.with_row(i, inner, [&](const T* from, const T* scale) {
          const T factor = scale != nullptr ? *scale : T{1};
          for (int64_t j = 0; j < kBlock; ++j)
            sums[j] = combine(sums[j], from[done + j] * factor, reduce);
        });
      std::copy_n(sums, kBlock, to + done);
    }
  }
  return done;
}

// Row i of src goes to row index[i] of y. Inlined into its caller, the loop takes a quarter longer.
template <class T>
[[gnu::noinline]] void reduce_rows(Reduce kind, const T* src, const int64_t* index, int64_t n, T* y,
                                   int64_t inner, int64_t width) {
  with_reduce(kind, [&](auto reduce) {
    for (int64_t i = 0; inner == 1 && i < n; ++i)
      y[index[i]] = combine(y[index[i]], src[i], reduce);
    for (int64_t i = 0; inner != 1 && i < n; ++i)
      combine_row(y + index[i] * inner, src + i * inner, width, reduce);
  });
}

// Selected rows of src: neighbors that go to one row of y are summed in registers.
template <class T, class Reduction>
void reduce_selected(const Source<T>& src, const int64_t* index, int64_t begin, int64_t end, T* y,
                     int64_t inner, int64_t width, Reduction reduce) {
  for (int64_t i = begin, last = i; i < end; i = last) {
    while (last < end && index[last] == index[i]) ++last;
    T* to = y + index[i] * inner;
    const int64_t done = reduce_blocks(src, i, last, to, inner, width, reduce);
    for (int64_t k = i; done < width && k < last; ++k)
      src.with_row(k, inner, [&](const T* from, const T* scale) {
        if (scale == nullptr) return combine_row(to + done, from + done, width - done, reduce);
        for (int64_t j = done; j < width; ++j)
          to[j] = combine(to[j], combine(from[j], *scale, Reduce::prod), reduce);
      });
  }
}

// Rows [begin, end) of src.
template <class T>
void reduce_strip(const Rule& rule, const Source<T>& src, const int64_t* index, int64_t begin,
                  int64_t end, T* y, int64_t inner, int64_t width) {
  const bool fresh = !rule.include_self && rule.reduce != Reduce::none;
  for (int64_t i = begin; fresh && i < end; ++i)
    std::fill_n(y + index[i] * inner, width, identity<T>(rule.reduce));
  if (src.rows == nullptr)
    return reduce_rows(rule.reduce, src.data + begin * inner, index + begin, end - begin, y, inner,
                       width);
  with_reduce(rule.reduce, [&](auto reduce) {
    reduce_selected(src, index, begin, end, y, inner, width, reduce);
  });
}

bool all_below(int64_t size, const Tensor& index) {
  const int64_t* at = index.as<const int64_t>();
  return std::all_of(at, at + index.count(), [&](int64_t i) { return i >= 0 && i < size; });
}

void index_reduce_run(const RunContext& c) noexcept {
  const Rule& rule = c.state<Rule>();
  const Tensor& y = c.out(0);
  const bool selects = c.has(3);
  if (c.in(0).data != y.data) copy_strided(c, c.in(0), y);
  const int64_t* index = c.in(1).as<const int64_t>();
  const int64_t n = c.in(1).count(), size = y.shape[rule.dim];
  if (!all_below(size, c.in(1)) || (selects && !all_below(c.in(2).shape[0], c.in(3))))
    return c.fail(kOutOfRange);
  if (y.count() == 0 || n == 0) return;
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < rule.dim; ++d) outer *= y.shape[d];
  for (int d = rule.dim + 1; d < y.rank(); ++d) inner *= y.shape[d];
  const int64_t strips = ceil_div(inner, kStrip);
  int64_t* counts = c.workspace<int64_t>();
  if (rule.counts()) {
    std::fill_n(counts, size, 0);
    for (int64_t i = 0; i < n; ++i) ++counts[index[i]];
  }
  for_element(y.dtype, [&]<class T>() {
    // Reduces rows [begin, end) of src, which go to rows [low, high) of y, in one strip.
    const auto reduce = [&](int64_t o, int64_t strip, int64_t begin, int64_t end, int64_t low,
                            int64_t high) {
      const int64_t first = strip * kStrip, width = std::min(kStrip, inner - first);
      T* to = y.as<T>() + o * size * inner + first;
      Source<T> src{c.in(2).as<const T>() + (selects ? 0 : o * n * inner) + first};
      if (selects) src.rows = c.in(3).as<const int64_t>();
      if (c.has(4)) src.scale = c.in(4).as<const T>();
      if (c.has(5)) src.kept = c.in(5).as<const bool>();
      reduce_strip(rule, src, index, begin, end, to, inner, width);
      for (int64_t r = low; rule.counts() && r < high; ++r)
        for (int64_t j = 0; counts[r] > 0 && j < width; ++j)
          to[r * inner + j] = divided(to[r * inner + j], counts[r] + (rule.include_self ? 1 : 0));
    };
    // Rows of y that sorted indices write are also tasks: each has its own part of src.
    if (outer == 1 && size > strips && std::is_sorted(index, index + n)) {
      const int64_t grain = grain_of(std::max<int64_t>(1, n * inner / size));
      c.parallel_for(size, grain, [&](int64_t low, int64_t high) {
        const int64_t begin = std::lower_bound(index, index + n, low) - index;
        const int64_t end = std::lower_bound(index + begin, index + n, high) - index;
        for (int64_t strip = 0; strip < strips; ++strip) reduce(0, strip, begin, end, low, high);
      });
      return;
    }
    c.parallel_for(outer * strips, grain_of(n * std::min(inner, kStrip)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t task = begin; task < end; ++task)
                       reduce(task / strips, task % strips, 0, n, 0, size);
                   });
  });
}

void masked_scatter_run(const RunContext& c) noexcept {
  const Tensor& y = c.out(0);
  if (c.in(0).data != y.data) copy_strided(c, c.in(0), y);
  const bool* mask = c.in(1).as<const bool>();
  const int64_t given = c.in(2).count();
  for_bytes(y.dtype, [&]<class T>() {
    const T* src = c.in(2).as<const T>();
    T* to = y.as<T>();
    int64_t used = 0;
    for (int64_t i = 0; i < y.count(); ++i) {
      if (!mask[i]) continue;
      if (used == given) return c.fail("src has fewer elements than mask has true ones");
      to[i] = src[used++];
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "scatter",
     .name = "lines",
     .prepare = prepare_scatter,
     .run = scatter_run,
     .strided = 7},
    {.op = "index_reduce",
     .name = "strips",
     .prepare = prepare_index_reduce,
     .run = index_reduce_run,
     .strided = 1},
    {.op = "index_select_reduce",
     .name = "strips",
     .prepare = prepare_index_reduce,
     .run = index_reduce_run,
     .strided = 1},
    {.op = "masked_scatter", .name = "loop", .run = masked_scatter_run, .strided = 1},
};

}  // namespace

std::span<const KernelDef> scatter() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
