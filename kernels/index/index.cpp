// SPDX-License-Identifier: Apache-2.0
// Ops that read elements by index. One instance serves all dtypes of a size. Every index is
// checked; an index out of range fails the run.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "hg/kernel.h"
#include "kernels/bytes.h"
#include "kernels/element.h"
#include "kernels/strided_copy.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr const char* kOutOfRange = "an index is out of range";
constexpr int64_t kGrain = 1 << 14;  // elements of one task

struct Axis {
  int dim = 0;
};

Status axis_prepare(PrepareContext& c) {
  c.make_state(Axis{c.attrs().axis("dim", c.in(0).rank())});
  return {};
}

bool is_outside(int64_t i, int64_t n) {
  return static_cast<uint64_t>(i) >= static_cast<uint64_t>(n);
}

// Rows of the last dim of index; x has any strides.
template <class T>
void gather(const RunContext& c) {
  const Tensor& x = c.in(0);
  const Tensor& y = c.out(0);
  const int64_t* index = c.in(1).as<const int64_t>();
  const int rank = y.rank(), last = rank - 1;
  const T* from = x.as<const T>();
  T* to = y.as<T>();
  if (rank == 0) {
    if (*index != 0) return c.fail(kOutOfRange);
    *to = *from;
    return;
  }
  const int dim = c.state<Axis>().dim;
  const int64_t columns = y.shape[last], size = x.shape[dim], stride = x.strides[dim];
  const int64_t step = dim == last ? 0 : x.strides[last];
  if (size == 0) return c.fail(kOutOfRange);
  c.parallel_for(y.count() / columns, grain_of(columns, kGrain), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t at = row, offset = 0;
      for (int d = last - 1; d >= 0; --d) {
        if (d != dim) offset += at % y.shape[d] * x.strides[d];
        at /= y.shape[d];
      }
      bool outside = false;  // reported at the end of the row; reads x[0] until then
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t given = index[row * columns + j];
        const bool wrong = is_outside(given, size);
        outside |= wrong;
        to[row * columns + j] = from[offset + (wrong ? 0 : given) * stride + j * step];
      }
      if (outside) return c.fail(kOutOfRange);
    }
  });
}

void gather_run(const RunContext& c) noexcept {
  if (c.out(0).count() == 0) return;
  for_bytes(c.out(0).dtype, [&]<class T>() { gather<T>(c); });
}

// Blocks of elements. With a known size of one element, copying is a load and a store.
template <class T, class Block>
void select_blocks(const RunContext& c, int64_t outer, int64_t n, Block block) {
  const int64_t m = c.in(1).count();
  const int64_t* index = c.in(1).as<const int64_t>();
  const T* from = c.in(0).as<const T>();
  T* to = c.out(0).as<T>();
  if (outer == 0) return;
  bool outside = false;
  for (int64_t k = 0; k < m; ++k) outside |= is_outside(index[k], n);
  if (outside) return c.fail(kOutOfRange);
  if (block == 0) return;
  const int64_t grain = grain_of(block * int64_t{sizeof(T)}, 4 * kGrain);
  c.parallel_for(outer * m, grain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end;) {
      const T* row = from + at / m * n * block;
      const int64_t first = at % m, last = std::min(m, first + end - at);
      T* out = to + at * block;
      at += last - first;
      for (int64_t k = first; k < last; ++k, out += block)
        std::memcpy(out, row + index[k] * block, block * sizeof(T));
    }
  });
}

void select_blocks(const RunContext& c, int dim) {
  const Tensor& x = c.in(0);
  int64_t outer = 1, block = 1;
  for (int d = 0; d < dim; ++d) outer *= x.shape[d];
  for (int d = dim + 1; d < x.rank(); ++d) block *= x.shape[d];
  for_bytes(x.dtype, [&]<class T>() {
    const int64_t n = x.shape[dim];
    if (block == 1) return select_blocks<T>(c, outer, n, std::integral_constant<int64_t, 1>());
    select_blocks<T>(c, outer, n, block);
  });
}

void index_select_run(const RunContext& c) noexcept { select_blocks(c, c.state<Axis>().dim); }
void embedding_run(const RunContext& c) noexcept { select_blocks(c, 0); }

// The offsets in `t` that indices [begin, end) select. Returns false if one is out of range.
bool indexed_offsets(const RunContext& c, int first, const Tensor& t, int64_t begin, int64_t end,
                     int64_t* offsets) {
  std::fill_n(offsets, end - begin, 0);
  bool outside = false;
  for (int i = first; i < c.input_count(); ++i) {
    const int64_t* index = c.in(i).as<const int64_t>() + begin;
    const int64_t size = t.shape[i - first], stride = t.strides[i - first];
    for (int64_t k = 0; k < end - begin; ++k) {
      const int64_t at = index[k] + (index[k] < 0 ? size : 0);
      const bool wrong = is_outside(at, size);
      outside |= wrong;
      offsets[k] += (wrong ? 0 : at) * stride;
    }
  }
  return !outside;
}
constexpr int64_t kOffsets = 256;  // computed together

Tensor tail(const Tensor& t, int from) {
  Tensor rest{t.data, t.dtype, {}, {}};
  for (int d = from; d < t.rank(); ++d) {
    rest.shape.push_back(t.shape[d]);
    rest.strides.push_back(t.strides[d]);
  }
  return rest;
}

void index_run(const RunContext& c) noexcept {
  const Tensor& x = c.in(0);
  const int64_t count = c.in(1).count(), bytes = size_of(x.dtype);
  const Tensor from = tail(x, c.input_count() - 1);
  const Tensor to = tail(c.out(0), c.in(1).rank());
  const int64_t each = from.count();
  const bool run = from.is_contiguous();
  c.parallel_for(count, grain_of(each, kGrain), [&](int64_t begin, int64_t end) {
    int64_t offsets[kOffsets];
    for (int64_t first = begin; first < end; first += kOffsets) {
      const int64_t last = std::min(end, first + kOffsets);
      if (!indexed_offsets(c, 1, x, first, last, offsets)) return c.fail(kOutOfRange);
      if (each == 1) {
        for_bytes(x.dtype, [&]<class T>() {
          for (int64_t k = first; k < last; ++k)
            to.as<T>()[k] = x.as<const T>()[offsets[k - first]];
        });
        continue;
      }
      for (int64_t k = first; k < last; ++k) {
        Tensor source = from, target = to;
        source.data = x.as<std::byte>() + offsets[k - first] * bytes;
        target.data = to.as<std::byte>() + k * each * bytes;
        if (run)
          std::memcpy(target.data, source.data, each * bytes);
        else
          copy_elements(source, target);
      }
    }
  });
}

template <class T>
void add_elements(const Tensor& from, const Tensor& to, int d) {
  if (d == from.rank()) {
    if constexpr (std::is_same_v<T, bool>)
      *to.as<T>() = *to.as<T>() || *from.as<const T>();
    else if constexpr (std::is_integral_v<T>)
      *to.as<T>() = static_cast<T>(static_cast<uint64_t>(*to.as<T>()) +
                                   static_cast<uint64_t>(*from.as<const T>()));
    else
      store(to.as<T>(), load(to.as<T>()) + load(from.as<const T>()));
    return;
  }
  Tensor source = from, target = to;
  for (int64_t i = 0; i < from.shape[d]; ++i) {
    add_elements<T>(source, target, d + 1);
    source.data = source.as<T>() + from.strides[d];
    target.data = target.as<T>() + to.strides[d];
  }
}

struct Accumulate {
  bool add = false;
};

Status index_put_prepare(PrepareContext& c) {
  c.make_state(Accumulate{c.attrs().flag("accumulate")});
  return {};
}

// One position after another, so that the last of several values for one element stays, and sums
// have a fixed order.
void index_put_run(const RunContext& c) noexcept {
  const Tensor& y = c.out(0);
  const Tensor& values = c.in(1);
  if (c.in(0).data != y.data) copy_strided(c, c.in(0), y);
  const Tensor& first = c.in(2);
  const Tensor from = tail(values, first.rank());
  const Tensor to = tail(y, c.input_count() - 2);
  const int64_t bytes = size_of(y.dtype);
  int64_t offsets[kOffsets];
  for (int64_t k = 0; k < first.count(); ++k) {
    const int64_t found = k % kOffsets;
    if (found == 0 && !indexed_offsets(c, 2, y, k, std::min(first.count(), k + kOffsets), offsets))
      return c.fail(kOutOfRange);
    Tensor source = from, target = to;
    int64_t at = k, skipped = 0;
    for (int d = first.rank() - 1; d >= 0; --d) {
      skipped += at % first.shape[d] * values.strides[d];
      at /= first.shape[d];
    }
    source.data = values.as<std::byte>() + skipped * bytes;
    target.data = y.as<std::byte>() + offsets[found] * bytes;
    if (!c.state<Accumulate>().add) {
      copy_elements(source, target);
    } else if (y.dtype == boolean) {
      add_elements<bool>(source, target, 0);
    } else {
      for_number(y.dtype, [&]<class T>() { add_elements<T>(source, target, 0); });
    }
  }
}

void one_hot_measure(const RunContext& c, std::span<int64_t> dims) noexcept {
  int64_t largest = 0;
  const int64_t* x = c.in(0).as<const int64_t>();
  for (int64_t i = 0; i < c.in(0).count(); ++i) largest = std::max(largest, x[i]);
  if (largest == std::numeric_limits<int64_t>::max()) return c.fail("a class is out of range");
  if (!dims.empty()) dims[0] = largest + 1;
}

void one_hot_run(const RunContext& c) noexcept {
  const int64_t* x = c.in(0).as<const int64_t>();
  int64_t* y = c.out(0).as<int64_t>();
  const int64_t classes = c.out(0).shape.back();
  c.parallel_for(c.in(0).count(), grain_of(classes, kGrain), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (x[i] < 0 || x[i] >= classes) return c.fail("a class is out of range");
      std::fill_n(y + i * classes, classes, 0);
      y[i * classes + x[i]] = 1;
    }
  });
}

// Whether an element of any dtype is nonzero; -0.0 is zero.
template <class F>
void with_nonzero(const Tensor& x, const F& f) {
  if (x.dtype == boolean) return f([p = x.as<const uint8_t>()](int64_t i) { return p[i] != 0; });
  for_number(x.dtype, [&]<class T>() {
    f([p = x.as<const T>()](int64_t i) { return load(p + i) != Wide<T>{0}; });
  });
}

void nonzero_measure(const RunContext& c, std::span<int64_t> dims) noexcept {
  int64_t found = 0;
  with_nonzero(c.in(0), [&](const auto& is_nonzero) {
    for (int64_t i = 0; i < c.in(0).count(); ++i) found += is_nonzero(i);
  });
  if (!dims.empty()) dims[0] = found;
}

// Writes the position of each element, and keeps it if the element is nonzero. This avoids a branch
// that is hard to predict.
void nonzero_run(const RunContext& c) noexcept {
  const Sizes& shape = c.in(0).shape;
  const int last = shape.rank() - 1;
  int64_t* y = c.out(0).as<int64_t>();
  int64_t* const end = y + c.out(0).count();
  Sizes at = shape;  // of the line
  for (int64_t& place : at) place = 0;
  with_nonzero(c.in(0), [&](const auto& is_nonzero) {
    const int64_t length = last < 0 ? 1 : shape[last];
    for (int64_t i = 0; y != end; i += length) {
      for (int64_t k = 0; k < length && y != end; ++k) {
        for (int d = 0; d < last; ++d) y[d] = at[d];
        y[last] = k;
        y += int64_t{is_nonzero(i + k)} * (last + 1);
      }
      for (int d = last - 1; d >= 0 && ++at[d] == shape[d]; --d) at[d] = 0;
    }
  });
}

void repeat_interleave_measure(const RunContext& c, std::span<int64_t> dims) noexcept {
  int64_t sum = 0;
  const int64_t* repeats = c.in(0).as<const int64_t>();
  for (int64_t i = 0; i < c.in(0).count(); ++i) {
    if (repeats[i] < 0) return c.fail("repeats must not be negative");
    if (repeats[i] > std::numeric_limits<int64_t>::max() - sum)
      return c.fail("the sum of the repeats has more than 64 bits");
    sum += repeats[i];
  }
  if (!dims.empty()) dims[0] = sum;
}

void repeat_interleave_run(const RunContext& c) noexcept {
  const int64_t* repeats = c.in(0).as<const int64_t>();
  int64_t* y = c.out(0).as<int64_t>();
  for (int64_t i = 0; i < c.in(0).count(); ++i) {
    std::fill_n(y, repeats[i], i);
    y += repeats[i];
  }
}

constexpr KernelDef kKernels[] = {
    {.op = "gather", .name = "rows", .prepare = axis_prepare, .run = gather_run, .strided = 1},
    {.op = "index_select", .name = "blocks", .prepare = axis_prepare, .run = index_select_run},
    {.op = "embedding", .name = "blocks", .run = embedding_run},
    {.op = "index", .name = "blocks", .run = index_run, .strided = 1},
    {.op = "index_put",
     .name = "blocks",
     .prepare = index_put_prepare,
     .run = index_put_run,
     .strided = 3},
    {.op = "one_hot", .name = "rows", .run = one_hot_run, .measure = one_hot_measure},
    {.op = "nonzero", .name = "loop", .run = nonzero_run, .measure = nonzero_measure},
    {.op = "repeat_interleave",
     .name = "loop",
     .run = repeat_interleave_run,
     .measure = repeat_interleave_measure},
};

}  // namespace

std::span<const KernelDef> index() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
