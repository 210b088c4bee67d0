// SPDX-License-Identifier: Apache-2.0
// Running reductions along one dim, line by line.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/lines.h"
#include "kernels/simd/half_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

#if defined(HG_SMALL)
constexpr bool kIsSmall = true;  // one line at a time
#else
constexpr bool kIsSmall = false;
#endif

template <class T>
constexpr bool kReal = std::is_floating_point_v<Wide<T>>;

template <class F>
void each_line(const RunContext& c, const F& f) {
  const Sizes& shape = c.in(0).shape;
  const Lines lines = lines_of(shape, static_cast<int>(c.state<int64_t>()));
  c.parallel_for(lines.count, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, lines.length)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t line = begin; line < end; ++line) f(lines, lines.start(line));
                 });
}

// Calls f(number of lines, lines, the first one) for four lines at a time, then for single ones:
// several lines hide the latency of the operation.
template <class F>
void few_lines(const RunContext& c, const F& f) {
  constexpr int kTogether = kIsSmall ? 1 : 4;
  const Lines lines = lines_of(c.in(0).shape, static_cast<int>(c.state<int64_t>()));
  c.parallel_for(lines.count,
                 std::max<int64_t>(kTogether, 16384 / std::max<int64_t>(1, lines.length)),
                 [&](int64_t begin, int64_t end) {
                   int64_t line = begin;
                   for (; line + kTogether <= end; line += kTogether)
                     f(std::integral_constant<int, kTogether>(), lines, line);
                   for (; line < end; ++line) f(std::integral_constant<int, 1>(), lines, line);
                 });
}

Status prepare(PrepareContext& c) {
  c.make_state(static_cast<int64_t>(c.attrs().axis("dim", c.in(0).rank())));
  return {};
}

// Lines of 16-bit floats that start at `at`, converted a piece at a time.
template <bool product, int kCount, class T>
void total_halves(int64_t length, const T* x, const int64_t (&at)[kCount], double (&total)[kCount],
                  T* y) {
  constexpr int64_t kPiece = 64;
  float part[kCount][kPiece];
  for (int64_t i = 0; i < length; i += kPiece) {
    const int64_t n = std::min(kPiece, length - i);
    for (int k = 0; k < kCount; ++k) half_table().widen(n, x + at[k] + i, part[k]);
    for (int64_t j = 0; j < n; ++j)
      for (int k = 0; k < kCount; ++k) {
        const double value = part[k][j];
        total[k] = product ? total[k] * value : total[k] + value;
        part[k][j] = static_cast<float>(total[k]);
      }
    for (int k = 0; k < kCount; ++k) half_table().narrow(n, part[k], y + at[k] + i);
  }
}

// Floats in double, integers in i64.
template <bool product>
void run_total(const RunContext& c) noexcept {
  for_type(c.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using Sum = std::conditional_t<kReal<T>, double, uint64_t>;
    using Y = std::conditional_t<kReal<T>, T, int64_t>;
    const T* x = c.in(0).as<T>();
    Y* y = c.out(0).as<Y>();
    few_lines(c, [&](auto count, const Lines& lines, int64_t first) {
      constexpr int kCount = count;
      Sum total[kCount];
      int64_t at[kCount];
      for (int k = 0; k < kCount; ++k) {
        total[k] = product ? 1 : 0;
        at[k] = lines.start(first + k);
      }
      if constexpr (kIsHalf<T> && !kIsSmall) {
        if (lines.stride == 1) return total_halves<product>(lines.length, x, at, total, y);
      }
      for (int64_t i = 0; i < lines.length; ++i)
        for (int k = 0; k < kCount; ++k) {
          const Sum value = static_cast<Sum>(wide(x[at[k]]));
          total[k] = product ? total[k] * value : total[k] + value;
          y[at[k]] = narrowed<Y>(total[k]);
          at[k] += lines.stride;
        }
    });
  });
}

void run_linear_scan(const RunContext& c) noexcept {
  for_float(c.in(0).dtype, [&]<class T>() {
    const T *a = c.in(0).as<T>(), *b = c.in(1).as<T>();
    T* y = c.out(0).as<T>();
    each_line(c, [&](const Lines& lines, int64_t at) {
      double total = 0;
      for (int64_t i = 0; i < lines.length; ++i, at += lines.stride) {
        const double next = static_cast<double>(wide(b[at]));
        const double factor = static_cast<double>(wide(a[at]));
        total = i == 0 || factor == 0 ? next : factor * total + next;
        y[at] = narrowed<T>(total);
      }
    });
  });
}

template <bool largest>
void run_extreme(const RunContext& c) noexcept {
  for_type(c.in(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* x = c.in(0).as<T>();
    T* values = c.out(0).as<T>();
    int64_t* indices = c.out(1).as<int64_t>();
    each_line(c, [&](const Lines& lines, int64_t at) {
      int64_t best = 0;
      T held = lines.length > 0 ? x[at] : T();
      auto top = wide(held);
      for (int64_t i = 0; i < lines.length; ++i, at += lines.stride) {
        const T element = x[at];
        const auto value = wide(element);
        // Rarely true, so a branch is faster than a choice, which each element would wait for.
        if (!(largest ? value < top : value > top)) [[unlikely]] {
          if (value != value || top == top) {
            held = element;
            top = value;
            best = i;
          }
        }
        values[at] = held;
        indices[at] = best;
      }
    });
  });
}

void run_logcumsumexp(const RunContext& c) noexcept {
  for_float(c.in(0).dtype, [&]<class T>() {
    const T* x = c.in(0).as<T>();
    T* y = c.out(0).as<T>();
    each_line(c, [&](const Lines& lines, int64_t at) {
      double total = -std::numeric_limits<double>::infinity();
      for (int64_t i = 0; i < lines.length; ++i, at += lines.stride) {
        const double value = static_cast<double>(wide(x[at]));
        if (std::isinf(value) && value == total) {
        } else if (total != total || value != value) {
          total = std::numeric_limits<double>::quiet_NaN();
        } else {
          total = std::max(total, value) + std::log1p(std::exp(-std::abs(total - value)));
        }
        y[at] = narrowed<T>(total);
      }
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "cumsum", .name = "line", .prepare = prepare, .run = run_total<false>},
    {.op = "cumprod", .name = "line", .prepare = prepare, .run = run_total<true>},
    {.op = "linear_scan", .name = "line", .prepare = prepare, .run = run_linear_scan},
    {.op = "cummax", .name = "line", .prepare = prepare, .run = run_extreme<true>},
    {.op = "cummin", .name = "line", .prepare = prepare, .run = run_extreme<false>},
    {.op = "logcumsumexp", .name = "line", .prepare = prepare, .run = run_logcumsumexp},
};

}  // namespace

std::span<const KernelDef> scan() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
