// SPDX-License-Identifier: Apache-2.0
// Rotary position embeddings: one pass over the rows of x with any strides, such as those of
// permuted heads. In f32 and f64 the result is bit-identical to that of the expansion.
#include <algorithm>

#include "kernels/element.h"
#include "kernels/pointwise/pointwise.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct Rope {
  Sizes shape;           // of the rows
  Sizes strides[3];      // of x, cos and sin; 0 if broadcast
  int64_t step[3] = {};  // along a row
  int64_t half = 0;
};

Status prepare(PrepareContext& c) {
  Rope r;
  const int rank = c.out(0).rank();
  r.half = c.out(0).shape[rank - 1] / 2;
  for (int d = 0; d + 1 < rank; ++d) r.shape.push_back(c.out(0).shape[d]);
  for (int i = 0; i < 3; ++i) {
    const Tensor& in = c.in(i);
    const int missing = rank - in.rank();
    for (int d = 0; d < rank; ++d) {
      const bool moves = d >= missing && in.shape[d - missing] != 1;
      const int64_t stride = moves ? in.strides[d - missing] : 0;
      if (d + 1 < rank)
        r.strides[i].push_back(stride);
      else
        r.step[i] = stride;
    }
  }
  c.make_state(r);
  return {};
}

template <class T>
struct Row {
  const T* at;
  int64_t step;
  auto operator[](int64_t i) const { return load(at + i * step); }
};

// For contiguous rows, the steps are compile-time constants.
template <class T>
void rotate(Row<T> x, Row<T> cos, Row<T> sin, int64_t half, T* y) {
  HG_INDEPENDENT_LOOP
  for (int64_t i = 0; i < half; ++i) {
    const auto a = x[i], b = x[i + half];
    const auto low = a * cos[i], low_turned = b * sin[i];
    const auto high = b * cos[i + half], high_turned = a * sin[i + half];
    store(y + i, low - low_turned);
    store(y + i + half, high + high_turned);
  }
}

template <class T>
void run_as(const RunContext& c) {
  const Rope& r = c.state<Rope>();
  T* y = c.out(0).as<T>();
  const int64_t rows = r.shape.count(), length = 2 * r.half;
  if (length == 0) return;
  c.parallel_for(rows, std::max<int64_t>(1, 8192 / length), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t offset[3] = {}, rest = row;
      for (int d = r.shape.rank() - 1; d >= 0; --d) {
        const int64_t at = rest % r.shape[d];
        for (int i = 0; i < 3; ++i) offset[i] += at * r.strides[i][d];
        rest /= r.shape[d];
      }
      const T *x = c.in(0).as<T>() + offset[0], *cos = c.in(1).as<T>() + offset[1],
              *sin = c.in(2).as<T>() + offset[2];
      if (r.step[0] == 1 && r.step[1] == 1 && r.step[2] == 1)
        rotate<T>({x, 1}, {cos, 1}, {sin, 1}, r.half, y + row * length);
      else
        rotate<T>({x, r.step[0]}, {cos, r.step[1]}, {sin, r.step[2]}, r.half, y + row * length);
    }
  });
}

void run(const RunContext& c) noexcept {
  for_float(c.out(0).dtype, [&]<class T>() { run_as<T>(c); });
}

constexpr KernelDef kKernels[] = {
    {.op = "rope", .name = "rows", .prepare = prepare, .run = run, .strided = kAllStrided},
};

}  // namespace

std::span<const KernelDef> rope() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
