// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements to new memory. One instance serves all dtypes of a size.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "hg/kernel.h"
#include "kernels/bytes.h"
#include "kernels/element.h"
#include "kernels/strided_copy.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

void contiguous_run(const RunContext& c) noexcept { copy_strided(c, c.in(0), c.out(0)); }

// The part of `t` that starts at `start` of dim and has `size` elements there.
Tensor part(const Tensor& t, int dim, int64_t start, int64_t size) {
  Tensor p = t;
  p.data = t.as<std::byte>() + start * t.strides[dim] * size_of(t.dtype);
  p.shape[dim] = size;
  return p;
}

struct Axis {
  int dim;
};

Status axis_prepare(PrepareContext& c) {
  c.make_state(Axis{c.attrs().axis("dim", c.out(0).rank())});
  return {};
}

#if !defined(HG_SMALL)
// y[i] = {a[i], b[i]}
template <class T>
void interleave(const RunContext& c) {
  constexpr int64_t kGrain = 1 << 14;
  const T *const a = c.in(0).as<T>(), *const b = c.in(1).as<T>();
  T* const y = c.out(0).as<T>();
  c.parallel_for(c.in(0).count(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      y[2 * i] = a[i];
      y[2 * i + 1] = b[i];
    }
  });
}

// Whether two tensors become neighbors, such as the parts of complex numbers.
bool is_interleaved(const RunContext& c, int dim) {
  const Tensor& y = c.out(0);
  if (c.input_count() != 2 || dim != y.rank() - 1 || !y.is_contiguous()) return false;
  for (const int i : {0, 1})
    if (c.in(i).shape[dim] != 1 || !c.in(i).is_contiguous()) return false;
  return size_of(y.dtype) == 4 || size_of(y.dtype) == 8;
}
#endif

void concat_run(const RunContext& c) noexcept {
  const int dim = c.state<Axis>().dim;
#if !defined(HG_SMALL)
  if (is_interleaved(c, dim))
    return size_of(c.out(0).dtype) == 4 ? interleave<uint32_t>(c) : interleave<uint64_t>(c);
#endif
  int64_t start = 0;
  for (int i = 0; i < c.input_count(); ++i) {
    const int64_t size = c.in(i).shape[dim];
    copy_strided(c, c.in(i), part(c.out(0), dim, start, size));
    start += size;
  }
}

using Bits = std::array<std::byte, 8>;  // of one element of any dtype

Bits bits_of(double value, DType dtype) {
  Bits bits{};
  const auto put = [&bits](auto element) { std::memcpy(bits.data(), &element, sizeof element); };
  if (dtype == boolean) {
    put(value != 0);
  } else {
    for_number(dtype, [&]<class T>() {
      if constexpr (std::is_integral_v<T>)
        put(static_cast<T>(static_cast<int64_t>(value)));
      else
        put(static_cast<T>(static_cast<Wide<T>>(value)));
    });
  }
  return bits;
}

template <class T>
T element_of(const Bits& bits) {
  T value;
  std::memcpy(&value, bits.data(), sizeof value);
  return value;
}

// The index in x for each index of y, for every dim; -1 is a padded element.
struct Sources {
  std::vector<int64_t> of[kMaxRank];
  Bits value{};
  // Dims from `inner` on are the same in x and y.
  int inner = 0;
  // For the dim before them: neighbors in y that are neighbors in x, or padding.
  struct Run {
    int64_t source, count;
    int64_t next() const { return source < 0 ? -1 : source + count; }
  };
  std::vector<Run> runs;
  // If runs are short: the elements of `together` rows of y, whose positions in x follow each
  // other.
  std::vector<int64_t> elements;
  int64_t together = 1;
  void find_elements(const Sizes& x);

  void find_runs(const Sizes& x) {
    if (inner == 0) return;
    for (const int64_t source : of[inner - 1]) {
      if (!runs.empty() && source == runs.back().next())
        ++runs.back().count;
      else
        runs.push_back({source, 1});
    }
    if (inner == x.rank() && runs.size() * 4 > of[inner - 1].size()) find_elements(x);
  }
};

void Sources::find_elements(const Sizes& x) {
  constexpr int64_t kTogether = 256;  // elements
  const std::vector<int64_t>& row = of[inner - 1];
  if (inner > 1) {
    const std::vector<int64_t>& rows = of[inner - 2];
    const auto count = static_cast<int64_t>(rows.size());
    bool is_same = count == x[inner - 2];
    for (int64_t i = 0; i < count && is_same; ++i) is_same = rows[i] == i;
    if (is_same)
      together = std::clamp<int64_t>(kTogether / static_cast<int64_t>(row.size()), 1, count);
  }
  for (int64_t r = 0; r < together; ++r)
    for (const int64_t source : row)
      elements.push_back(source < 0 ? -1 : r * x[inner - 1] + source);
}

int64_t wrapped(int64_t i, int64_t n) {
  const int64_t rest = n == 0 ? 0 : i % n;
  return rest < 0 ? rest + n : rest;
}

int64_t source_of(std::string_view mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  if (mode == "constant") return -1;
  if (mode == "replicate") return i < 0 ? 0 : n - 1;
  return i < 0 ? -i : 2 * (n - 1) - i;  // reflect
}

// Circular padding repeats the part of x that negative pads leave.
int64_t circular_source(int64_t o, int64_t begin, int64_t end, int64_t n) {
  const int64_t left = n + std::min<int64_t>(begin, 0) + std::min<int64_t>(end, 0);
  return wrapped(o - std::max<int64_t>(begin, 0), left) - std::min<int64_t>(begin, 0);
}

constexpr int64_t kMostPadded = 1 << 24;  // elements of a dim, which its table holds

Status pad_prepare(PrepareContext& c) {
  Sources sources;
  if (c.out(0).count() == 0) {  // other dims may be long
    c.make_state(std::move(sources));
    return {};
  }
  const Sizes& shape = c.in(0).shape;
  const std::span<const Dim> pads = c.attrs().dims("pads");
  sources.value = bits_of(c.attrs().real("value"), c.in(0).dtype);
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t begin = pads[2 * d].constant();
    const int64_t end = pads[2 * d + 1].constant();
    if (c.out(0).shape[d] > 4 * shape[d] + kMostPadded)
      return out_of_memory(c.label(), ": the pads ", begin, " and ", end, " of dim ", d,
                           " are too many");
    if (begin != 0 || end != 0) sources.inner = d + 1;
    const std::string& mode = c.attrs().string("mode");
    for (int64_t i = 0; i < c.out(0).shape[d]; ++i)
      sources.of[d].push_back(mode == "circular" ? circular_source(i, begin, end, shape[d])
                                                 : source_of(mode, i - begin, shape[d]));
  }
  sources.find_runs(shape);
  c.make_state(std::move(sources));
  return {};
}

Status roll_prepare(PrepareContext& c) {
  Sources sources;
  if (c.out(0).count() == 0) {
    c.make_state(std::move(sources));
    return {};
  }
  const Sizes& shape = c.in(0).shape;
  Sizes shifts(shape.rank(), 0);
  const Sizes dims = c.attrs().axes("dims", shape.rank());
  const std::span<const Dim> given = c.attrs().dims("shifts");
  for (int i = 0; i < dims.rank() && shape.rank() > 0; ++i) {
    shifts[dims[i]] = given[i].constant();
    sources.inner = std::max(sources.inner, static_cast<int>(dims[i]) + 1);
  }
  for (int d = 0; d < shape.rank(); ++d)
    for (int64_t i = 0; i < shape[d]; ++i)
      sources.of[d].push_back(wrapped(i - wrapped(shifts[d], shape[d]), shape[d]));
  sources.find_runs(shape);
  c.make_state(std::move(sources));
  return {};
}

// Short runs are copied as two words that may overlap, which is faster than a call.
template <class T>
void copy_run(const T* from, T* to, int64_t n) {
  const auto bytes = static_cast<size_t>(n) * sizeof(T);
  const auto* const source = reinterpret_cast<const std::byte*>(from);
  auto* const target = reinterpret_cast<std::byte*>(to);
  const auto copy_ends = [&]<class Word>(Word first, Word last) {
    std::memcpy(&first, source, sizeof first);
    std::memcpy(&last, source + bytes - sizeof last, sizeof last);
    std::memcpy(target, &first, sizeof first);
    std::memcpy(target + bytes - sizeof last, &last, sizeof last);
  };
  if (bytes > 2 * sizeof(uint64_t) || bytes < sizeof(uint32_t))
    std::memcpy(target, source, bytes);
  else if (bytes >= sizeof(uint64_t))
    copy_ends(uint64_t{}, uint64_t{});
  else
    copy_ends(uint32_t{}, uint32_t{});
}

// One row of y: the last dim that has sources, and `each` elements that stay together.
template <class T>
void map_row(const T* from, T* to, const std::vector<Sources::Run>& runs, int64_t each, T value) {
  for (const Sources::Run& run : runs) {
    const int64_t n = run.count * each;
    if (run.source < 0)
      std::fill_n(to, n, value);
    else
      copy_run(from + run.source * each, to, n);
    to += n;
  }
}

// The same with one element at a time.
template <class T>
void map_each(const T* from, T* to, const int64_t* sources, int64_t n, T value) {
  for (int64_t i = 0; i < n; ++i) to[i] = sources[i] < 0 ? value : from[sources[i]];
}

template <class T>
void map_elements(const RunContext& c) {
  const Sources& sources = c.state<Sources>();
  const Tensor& x = c.in(0);
  const Tensor& y = c.out(0);
  const T* from = x.as<const T>();
  T* to = y.as<T>();
  if (y.count() == 0) return;
  if (sources.inner == 0) return copy_strided(c, x, y);
  const T value = element_of<T>(sources.value);
  const int last = sources.inner - 1;
  int64_t each = 1;
  for (int d = sources.inner; d < y.rank(); ++d) each *= y.shape[d];
  const int64_t row = y.shape[last] * each;
  c.parallel_for(y.count() / row, grain_of(row, 1 << 15), [&](int64_t begin, int64_t end) {
    int64_t index[kMaxRank] = {}, at = begin;
    for (int d = last - 1; d >= 0; --d) {
      index[d] = at % y.shape[d];
      at /= y.shape[d];
    }
    for (int64_t r = begin, rows = 1; r < end; r += rows) {
      int64_t offset = 0;
      bool padded = false;
      if (sources.together > 1)
        rows = std::min({sources.together, end - r, y.shape[last - 1] - index[last - 1]});
      for (int d = 0; d < last; ++d) {
        const int64_t source = sources.of[d][index[d]];
        padded |= source < 0;
        offset += source * x.strides[d];
      }
      if (padded)
        std::fill_n(to + r * row, rows * row, value);
      else if (sources.elements.empty())
        map_row(from + offset, to + r * row, sources.runs, each, value);
      else
        map_each(from + offset, to + r * row, sources.elements.data(), rows * row, value);
      if (last == 0) continue;
      index[last - 1] += rows;
      for (int d = last - 1; d > 0 && index[d] == y.shape[d]; --d) {
        index[d] = 0;
        ++index[d - 1];
      }
    }
  });
}

void map_run(const RunContext& c) noexcept {
  for_bytes(c.out(0).dtype, [&]<class T>() { map_elements<T>(c); });
}

struct Triangle {
  int64_t diagonal = 0;
};

Status triangle_prepare(PrepareContext& c) {
  constexpr int64_t kFar = int64_t{1} << 60;  // beyond any row, and far from overflow
  c.make_state(Triangle{std::clamp(c.attrs().integer("diagonal"), -kFar, kFar)});
  return {};
}

// tril keeps [0, kept) of a row, triu keeps [kept, columns).
template <bool kLower>
void triangle_run(const RunContext& c) noexcept {
  const Tensor& y = c.out(0);
  if (y.count() == 0) return;
  const int64_t columns = y.shape.back(), rows = y.shape[y.rank() - 2];
  const int64_t diagonal = c.state<Triangle>().diagonal + (kLower ? 1 : 0);
  for_bytes(y.dtype, [&]<class T>() {
    const T* from = c.in(0).as<const T>();
    T* to = y.as<T>();
    c.parallel_for(y.count() / columns, grain_of(columns, 1 << 15),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t r = begin; r < end; ++r) {
                       const int64_t row = r % rows;
                       // Compares before adding: diagonal may be any int64.
                       const int64_t kept = diagonal >= columns ? columns
                                            : diagonal <= -rows
                                                ? 0
                                                : std::clamp<int64_t>(row + diagonal, 0, columns);
                       const int64_t first = kLower ? 0 : kept, last = kLower ? kept : columns;
                       if (from != to && last > first)
                         std::memcpy(to + r * columns + first, from + r * columns + first,
                                     static_cast<size_t>(last - first) * sizeof(T));
                       if (kLower)
                         std::fill_n(to + r * columns + kept, columns - kept, T{0});
                       else
                         std::fill_n(to + r * columns, kept, T{0});
                     }
                   });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "contiguous", .name = "copy", .run = contiguous_run, .strided = 1},
    {.op = "concat",
     .name = "copy",
     .prepare = axis_prepare,
     .run = concat_run,
     .strided = kAllStrided},
    {.op = "pad", .name = "rows", .prepare = pad_prepare, .run = map_run},
    {.op = "roll", .name = "rows", .prepare = roll_prepare, .run = map_run},
    {.op = "tril", .name = "rows", .prepare = triangle_prepare, .run = triangle_run<true>},
    {.op = "triu", .name = "rows", .prepare = triangle_prepare, .run = triangle_run<false>},
};

}  // namespace

std::span<const KernelDef> copy() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
