// SPDX-License-Identifier: Apache-2.0
// matmul and linear for every dtype, with plain loops.
#include <algorithm>

#include "hg/kernel.h"
#include "kernels/arithmetic.h"
#include "kernels/gemm/matmul_shape.h"
#include "lib/table/rows.h"

namespace hg::kernels {

MatmulShape matmul_shape(const Tensor& a, const Tensor& b) {
  MatmulShape s;
  const int ra = a.rank(), rb = b.rank();
  s.k = a.shape[ra - 1];
  s.a_col = a.strides[ra - 1];
  if (ra > 1) {
    s.m = a.shape[ra - 2];
    s.a_row = a.strides[ra - 2];
  }
  s.b_row = b.strides[std::max(rb - 2, 0)];
  if (rb > 1) {
    s.n = b.shape[rb - 1];
    s.b_col = b.strides[rb - 1];
  }
  const int lead_a = std::max(ra - 2, 0), lead_b = std::max(rb - 2, 0);
  const int lead = std::max(lead_a, lead_b);
  for (int i = 0; i < lead; ++i) {
    const int ia = i - (lead - lead_a), ib = i - (lead - lead_b);
    const int64_t size_a = ia >= 0 ? a.shape[ia] : 1, size_b = ib >= 0 ? b.shape[ib] : 1;
    s.batch.push_back(size_a == 1 ? size_b : size_a);
    s.a_batch.push_back(size_a == 1 ? 0 : a.strides[ia]);
    s.b_batch.push_back(size_b == 1 ? 0 : b.strides[ib]);
  }
  // Batches of a that share b become additional rows of a: [batch, m, k] [k, n] is [batch m, k] [k,
  // n].
  while (s.batch.rank() > 0) {
    const int last = s.batch.rank() - 1;
    if (s.batch[last] != 1) {
      if (s.b_batch[last] != 0 || (s.m != 1 && s.a_batch[last] != s.m * s.a_row)) break;
      if (s.m == 1) s.a_row = s.a_batch[last];
      s.m *= s.batch[last];
    }
    s.batch.erase(last);
    s.a_batch.erase(last);
    s.b_batch.erase(last);
  }
  return s;
}

MatmulShape product_shape(const PrepareContext& c) {
  if (!c.attrs().has("activation")) return matmul_shape(c.in(0), c.in(1));
  const Tensor &x = c.in(0), &weight = c.in(1);
  MatmulShape s;
  s.k = weight.shape[1];
  s.n = weight.shape[0];
  s.b_row = weight.strides[1];
  s.b_col = weight.strides[0];
  s.a_row = s.k;  // x is contiguous
  s.a_col = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) s.m *= x.shape[i];
  s.activation = *parse_activation(c.attrs().string("activation"));
  return s;
}

namespace {

// One row of y at a time, in pieces of kPiece columns whose sums stay in registers or cache.
template <class T>
void product(const RunContext& c, const MatmulShape& s, const T* a, const T* b, const T* bias,
             const T* residual, T* y) {
  constexpr int64_t kPiece = 64;
  const int64_t rows = s.batches() * s.m;
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, s.n * s.k));
  c.parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    SumOf<T> sums[kPiece];
    for (int64_t row = begin; row < end; ++row) {
      const T* ai = a + s.a_offset(row / s.m) + row % s.m * s.a_row;
      const T* bi = b + s.b_offset(row / s.m);
      for (int64_t first = 0; first < s.n; first += kPiece) {
        const int64_t columns = std::min(kPiece, s.n - first);
        for (int64_t j = 0; j < columns; ++j) sums[j] = 0;
        for (int64_t p = 0; p < s.k; ++p) {
          const SumOf<T> factor = load(ai[p * s.a_col]);
          const T* bp = bi + p * s.b_row + first * s.b_col;
          if (s.b_col == 1) {
            for (int64_t j = 0; j < columns; ++j) sums[j] += factor * load(bp[j]);
          } else {
            for (int64_t j = 0; j < columns; ++j) sums[j] += factor * load(bp[j * s.b_col]);
          }
        }
        T* to = y + row * s.n + first;
        for (int64_t j = 0; j < columns; ++j) {
          SumOf<T> sum = sums[j];
          if (bias) sum += load(bias[first + j]);
          if (residual) sum += load(residual[row * s.n + first + j]);
          if constexpr (!std::is_integral_v<T>) sum = activate(s.activation, sum);
          to[j] = store<T>(sum);
        }
      }
    }
  });
}

Status product_prepare(PrepareContext& c) {
  c.make_state(product_shape(c));
  return {};
}

void product_run(const RunContext& c) noexcept {
  for_number(c.out(0).dtype, [&]<class T>() {
    product<T>(c, c.state<MatmulShape>(), c.in(0).as<T>(), c.in(1).as<T>(),
               c.has(2) ? c.in(2).as<T>() : nullptr, c.has(3) ? c.in(3).as<T>() : nullptr,
               c.out(0).as<T>());
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "matmul",
     .name = "loops",
     .prepare = product_prepare,
     .run = product_run,
     .strided = kAllStrided,
     .is_fallback = true},
    {.op = "linear",
     .name = "loops",
     .prepare = product_prepare,
     .run = product_run,
     .strided = 1u << 1,
     .is_fallback = true},
};

}  // namespace

std::span<const KernelDef> matmul() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
