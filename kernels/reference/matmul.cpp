// SPDX-License-Identifier: Apache-2.0
// Matrix products, textbook form.
#include <algorithm>
#include <cmath>

#include "kernels/pointwise/activation.h"
#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// The start of the matrix of `array` at the batch position `at` of the broadcast shape `lead`.
int64_t matrix_at(const Array& array, const Sizes& lead, int64_t at) {
  const int own = array.shape.rank() - 2;
  int64_t offset = 0, stride = array.shape[own] * array.shape[own + 1];
  for (int d = lead.rank() - 1; d >= 0; --d) {
    const int mine = d - (lead.rank() - own);
    const int64_t position = at % lead[d];
    at /= lead[d];
    if (mine < 0) continue;
    if (array.shape[mine] != 1) offset += position * stride;
    stride *= array.shape[mine];
  }
  return offset;
}

Sizes broadcast_lead(const Array& a, const Array& b) {
  Sizes lead;
  const int ra = a.shape.rank() - 2, rb = b.shape.rank() - 2, rank = std::max(ra, rb);
  for (int i = 0; i < rank; ++i) {
    const int64_t sa = i - (rank - ra) >= 0 ? a.shape[i - (rank - ra)] : 1;
    const int64_t sb = i - (rank - rb) >= 0 ? b.shape[i - (rank - rb)] : 1;
    lead.push_back(sa == 1 ? sb : sa);
  }
  return lead;
}

void matmul_run(const Call& c) {
  Array a = c.in[0], b = c.in[1];
  if (a.shape.rank() == 1) a.shape.insert(0, 1);
  if (b.shape.rank() == 1) b.shape.insert(1, 1);
  const Sizes lead = broadcast_lead(a, b);
  const int64_t m = a.shape[a.shape.rank() - 2], k = a.shape.back(), n = b.shape.back();
  for (int64_t batch = 0, at = 0; batch < lead.count(); ++batch) {
    const int64_t of_a = matrix_at(a, lead, batch), of_b = matrix_at(b, lead, batch);
    for (int64_t i = 0; i < m; ++i, at += n)
      for (int64_t p = 0; p < k; ++p)
        for (int64_t j = 0; j < n; ++j)
          c.out[0].at(at + j) += a.at(of_a + i * k + p) * b.at(of_b + p * n + j);
  }
}

void linear_run(const Call& c) {
  const int64_t out = c.in[1].shape[0], k = c.in[1].shape[1];
  const Activation activation = *parse_activation(c.attrs.string("activation"));
  for (int64_t at = 0; at < c.out[0].count(); ++at) {
    double sum = 0;
    for (int64_t p = 0; p < k; ++p)
      sum += c.in[0].at(at / out * k + p) * c.in[1].at(at % out * k + p);
    if (given(c, 2)) sum += c.in[2].at(at % out);
    if (given(c, 3)) sum += c.in[3].at(at);
    c.out[0].at(at) = kernels::activate(activation, sum);
  }
}

void cdist_run(const Call& c) {
  const Array &a = c.in[0], &b = c.in[1];
  const double p = c.attrs.real("p");
  const Sizes lead = broadcast_lead(a, b);
  const int64_t rows = a.shape[a.shape.rank() - 2], others = b.shape[b.shape.rank() - 2];
  const int64_t length = a.shape.back();
  for (int64_t batch = 0, at = 0; batch < lead.count(); ++batch) {
    const int64_t of_a = matrix_at(a, lead, batch), of_b = matrix_at(b, lead, batch);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < others; ++j, ++at) {
        double sum = 0, largest = 0, different = 0;
        for (int64_t m = 0; m < length; ++m) {
          const double d = std::abs(a.at(of_a + i * length + m) - b.at(of_b + j * length + m));
          sum += std::pow(d, p);
          largest = std::max(largest, d);
          different += std::isnan(d) ? d : d != 0;
        }
        c.out[0].at(at) = p == 0 ? different : std::isinf(p) ? largest : std::pow(sum, 1 / p);
      }
  }
}

constexpr Row kRows[] = {
    {"matmul", matmul_run},
    {"linear", linear_run},
    {"mixed_linear", linear_run},
    {"cdist", cdist_run},
};

}  // namespace

std::span<const Row> matmul() { return kRows; }

}  // namespace hg::reference::rows
