// SPDX-License-Identifier: Apache-2.0
// Ops that write or accumulate elements at indices. What meets in one element is done by one task
// in the order of the indices, so results do not depend on the number of threads.
#include <algorithm>
#include <cmath>
#include <limits>

#include "hg/kernel.h"
#include "kernels/element.h"
#include "kernels/index/bytes.h"
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
};

Status prepare(PrepareContext& c) {
  Rule rule{c.attrs().axis("dim", c.in(0).rank()), Reduce::none, c.attrs().flag("include_self")};
  constexpr std::string_view kNames[] = {"none", "add", "prod", "amax", "amin", "mean"};
  for (int i = 0; i < 6; ++i)
    if (c.attrs().string("reduce") == kNames[i]) rule.reduce = static_cast<Reduce>(i);
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

// What an element that is not counted itself starts with.
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

// All that goes into one line of y: element i of src, at index[i * index_step], for i in [0, n).
struct Line {
  const int64_t* index;
  int64_t index_step, src_step, y_step;
  int64_t n, size;  // of src and of y
};

template <class T>
bool scatter_line(const Rule& rule, const Line& line, const T* src, T* y, int64_t* counts) {
  for (int64_t i = 0; i < line.n; ++i) {
    const int64_t at = line.index[i * line.index_step];
    if (at < 0 || at >= line.size) return false;
    if (!rule.include_self && rule.reduce != Reduce::none)
      y[at * line.y_step] = identity<T>(rule.reduce);
    if (rule.counts()) counts[at * line.y_step] = 0;
  }
  for (int64_t i = 0; i < line.n; ++i) {
    const int64_t at = line.index[i * line.index_step] * line.y_step;
    y[at] = combine(y[at], src[i * line.src_step], rule.reduce);
    if (rule.counts()) ++counts[at];
  }
  if (!rule.counts()) return true;
  for (int64_t i = 0; i < line.n; ++i) {
    const int64_t at = line.index[i * line.index_step] * line.y_step;
    if (counts[at] == 0) continue;
    y[at] = divided(y[at], counts[at] + (rule.include_self ? 1 : 0));
    counts[at] = 0;
  }
  return true;
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
  Line line{nullptr, 0, 0, 0, 1, 1};
  if (rank > 0)
    line = {nullptr,        index.strides[dim], src.strides[dim],
            y.strides[dim], index.shape[dim],   y.shape[dim]};
  int64_t* counts = c.workspace<int64_t>();
  for_element(y.dtype, [&]<class T>() {
    c.parallel_for(index.count() / line.n, grain_of(line.n), [&](int64_t begin, int64_t end) {
      for (int64_t l = begin; l < end; ++l) {
        int64_t at = l, from = 0, src_from = 0, to = 0;
        for (int d = rank - 1; d >= 0; --d) {
          if (d == dim) continue;
          const int64_t i = at % index.shape[d];
          at /= index.shape[d];
          from += i * index.strides[d];
          src_from += i * src.strides[d];
          to += i * y.strides[d];
        }
        Line own = line;
        own.index = index.as<const int64_t>() + from;
        if (!scatter_line(rule, own, src.as<const T>() + src_from, y.as<T>() + to,
                          counts != nullptr ? counts + to : nullptr))
          return c.fail(kOutOfRange);
      }
    });
  });
}

// Tasks are strips of the elements behind dim, so that rows are read and written in runs.
template <class T>
void reduce_strip(const RunContext& c, const T* src, T* y, int64_t inner, int64_t width) {
  const Rule& rule = c.state<Rule>();
  const int64_t* index = c.in(1).as<const int64_t>();
  const int64_t n = c.in(1).count();
  const bool fresh = !rule.include_self && rule.reduce != Reduce::none;
  for (int64_t i = 0; fresh && i < n; ++i)
    std::fill_n(y + index[i] * inner, width, identity<T>(rule.reduce));
  for (int64_t i = 0; i < n; ++i) {
    T* to = y + index[i] * inner;
    const T* from = src + i * inner;
    for (int64_t j = 0; j < width; ++j) to[j] = combine(to[j], from[j], rule.reduce);
  }
}

void index_reduce_run(const RunContext& c) noexcept {
  const Rule& rule = c.state<Rule>();
  const Tensor& y = c.out(0);
  if (c.in(0).data != y.data) copy_strided(c, c.in(0), y);
  const int64_t* index = c.in(1).as<const int64_t>();
  const int64_t n = c.in(1).count(), size = y.shape[rule.dim];
  for (int64_t i = 0; i < n; ++i)
    if (index[i] < 0 || index[i] >= size) return c.fail(kOutOfRange);
  if (y.count() == 0 || n == 0) return;
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < rule.dim; ++d) outer *= y.shape[d];
  for (int d = rule.dim + 1; d < y.rank(); ++d) inner *= y.shape[d];
  constexpr int64_t kStrip = 256;
  const int64_t strips = (inner + kStrip - 1) / kStrip;
  int64_t* counts = c.workspace<int64_t>();
  if (rule.counts()) {
    std::fill_n(counts, size, 0);
    for (int64_t i = 0; i < n; ++i) ++counts[index[i]];
  }
  for_element(y.dtype, [&]<class T>() {
    const int64_t grain = grain_of(n * std::min(inner, kStrip));
    c.parallel_for(outer * strips, grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t o = task / strips, first = task % strips * kStrip;
        const int64_t width = std::min(kStrip, inner - first);
        T* to = y.as<T>() + o * size * inner + first;
        reduce_strip(c, c.in(2).as<const T>() + o * n * inner + first, to, inner, width);
        for (int64_t r = 0; rule.counts() && r < size; ++r)
          for (int64_t j = 0; counts[r] > 0 && j < width; ++j)
            to[r * inner + j] = divided(to[r * inner + j], counts[r] + (rule.include_self ? 1 : 0));
      }
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
    {.op = "scatter", .name = "lines", .prepare = prepare, .run = scatter_run, .strided = 7},
    {.op = "index_reduce",
     .name = "strips",
     .prepare = prepare,
     .run = index_reduce_run,
     .strided = 1},
    {.op = "masked_scatter", .name = "loop", .run = masked_scatter_run, .strided = 1},
};

}  // namespace

std::span<const KernelDef> scatter() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
