// SPDX-License-Identifier: Apache-2.0
// Tensors computed from attributes alone.
#include <cmath>

#include "hg/kernel.h"
#include "kernels/element.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct Range {
  int64_t start, step;
};

Status arange_prepare(PrepareContext& c) {
  c.make_state(Range{c.attrs().integer("start"), c.attrs().integer("step")});
  return {};
}

void arange_run(const RunContext& c) noexcept {
  const Range range = c.state<Range>();
  const Tensor& y = c.out(0);
  for_number(y.dtype, [&]<class T>() {
    T* out = y.as<T>();
    c.parallel_for(y.count(), 1 << 15, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t value = range.start + i * range.step;
        if constexpr (std::is_integral_v<T>)
          out[i] = static_cast<T>(value);
        else
          store(out + i, static_cast<Wide<T>>(value));
      }
    });
  });
}

struct Steps {
  double start, end;
};

Status linspace_prepare(PrepareContext& c) {
  c.make_state(Steps{c.attrs().real("start"), c.attrs().real("end")});
  return {};
}

// As in torch: element i of `count` ones of type T. Counts from the nearer end, so that both ends
// are exact: with one rounding of a product and its sum, but rounding each to T for elements of 16
// bits.
template <class T, class W = Wide<T>>
W linspace_at(W first, W last, int64_t i, int64_t count) {
  if (count == 1) return first;
  const bool is_low = i < count / 2;
  const W from = is_low ? first : last, steps = static_cast<W>(is_low ? i : count - i - 1);
  if constexpr (sizeof(T) == 2) {
    const auto rounded = [](W value) { return static_cast<W>(static_cast<T>(value)); };
    const W step = rounded(rounded(last - first) / rounded(static_cast<W>(count - 1)));
    const W way = rounded(step * rounded(steps));
    return rounded(is_low ? from + way : from - way);
  }
  const W step = (last - first) / static_cast<W>(count - 1);
  return std::fma(is_low ? step : -step, steps, from);
}

// Integers are truncated, the ends first.
void linspace_run(const RunContext& c) noexcept {
  const Tensor& y = c.out(0);
  const Steps& s = c.state<Steps>();
  const int64_t count = y.count();
  constexpr int64_t kGrain = 1 << 15;
  if (is_integer(y.dtype)) {
    const auto cut = [&](double v) {
      const double whole = std::trunc(v);
      return y.dtype == u8 && whole < 0 ? whole + 256 : whole;
    };
    return c.parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for_number(y.dtype, [&]<class T>() {
          if constexpr (std::is_integral_v<T>)
            y.as<T>()[i] = static_cast<T>(
                static_cast<int64_t>(linspace_at<double>(cut(s.start), cut(s.end), i, count)));
        });
    });
  }
  for_float(y.dtype, [&]<class T>() {  // dtypes of up to 32 bits in f32
    using W = Wide<T>;
    const auto end_of = [](double v) { return static_cast<W>(static_cast<T>(static_cast<W>(v))); };
    c.parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        store(y.as<T>() + i, linspace_at<T>(end_of(s.start), end_of(s.end), i, count));
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "arange", .name = "loop", .prepare = arange_prepare, .run = arange_run},
    {.op = "linspace", .name = "loop", .prepare = linspace_prepare, .run = linspace_run},
};

}  // namespace

std::span<const KernelDef> factory() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
