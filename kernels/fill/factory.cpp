// SPDX-License-Identifier: Apache-2.0
// Tensors made from attributes alone.
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

// As torch: counted from the nearer end, so that both ends are exact; integers are cut off, the
// ends first. Floats of up to 32 bits are computed in f32.
template <class T>
void linspace(const Steps& s, T* out, int64_t begin, int64_t end, int64_t count) {
  using W = std::conditional_t<std::is_integral_v<T>, double, Wide<T>>;
  const auto cut = [](double v) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<W>(static_cast<T>(v));
    else
      return static_cast<W>(v);
  };
  const W first = cut(s.start), last = cut(s.end);
  const W step = count > 1 ? (last - first) / static_cast<W>(count - 1) : W{0};
  for (int64_t i = begin; i < end; ++i) {
    const W value = count == 1 || i < count / 2 ? first + step * static_cast<W>(i)
                                                : last - step * static_cast<W>(count - i - 1);
    if constexpr (std::is_integral_v<T>)
      out[i] = static_cast<T>(static_cast<int64_t>(value));
    else
      store(out + i, value);
  }
}

void linspace_run(const RunContext& c) noexcept {
  const Tensor& y = c.out(0);
  for_number(y.dtype, [&]<class T>() {
    c.parallel_for(y.count(), 1 << 15, [&](int64_t begin, int64_t end) {
      linspace(c.state<Steps>(), y.as<T>(), begin, end, y.count());
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
