// SPDX-License-Identifier: Apache-2.0
// Scaled dot product attention, one query at a time.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// Input i, k or v, at an element of the dim `dim`; with its scale if it has levels.
double stored(const Call& c, size_t i, int64_t at, int64_t dim) {
  const double x = c.in[i].at(at);
  return c.in[i].dtype == i8 ? x * c.in[i + 3].at(at / dim) : x;
}

struct Weights {
  std::vector<double> p;  // per key; all 0 if no key is visible
  int64_t source = 0;     // the head of k and v
  double scale = 1;
};

// For query `row` over all heads.
Weights weights_of(const Call& c, int64_t row) {
  const bool is_causal = c.attrs.flag("causal");
  const Array &q = c.in[0], &k = c.in[1];
  const int rank = q.shape.rank();
  const int64_t times = q.shape[rank - 2], dim = q.shape[rank - 1], keys = k.shape[rank - 2];
  const int64_t heads = rank > 2 ? q.shape[rank - 3] : 1,
                key_heads = rank > 2 ? k.shape[rank - 3] : 1;
  const int64_t t = row % times, head = row / times % heads, batch = row / times / heads;
  Weights w;
  w.p.resize(keys);
  w.source = batch * key_heads + head / (heads / key_heads);
  w.scale = c.attrs.has("scale") ? c.attrs.real("scale")
                                 : 1 / std::sqrt(std::max<double>(1, static_cast<double>(dim)));
  double top = -HUGE_VAL, sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    double score = 0;
    for (int64_t e = 0; e < dim; ++e)
      score += q.at(row * dim + e) * stored(c, 1, (w.source * keys + j) * dim + e, dim);
    score *= w.scale;
    if (is_causal && j > t) score = -HUGE_VAL;
    if (c.in.size() > 3 &&
        c.in[3].given) {  // the mask broadcasts to [batch..., heads, times, keys]
      const Array& m = c.in[3];
      int64_t at = 0, stride = 1, rest = (row / times * times + t) * keys + j;
      for (int i = 1; i <= rank; ++i) {
        const int64_t size = i == 1 ? keys : q.shape[rank - i];
        if (i <= m.shape.rank()) {
          const int64_t own = m.shape[m.shape.rank() - i];
          if (own != 1) at += rest % size * stride;
          stride *= own;
        }
        rest /= size;
      }
      if (m.dtype != boolean)
        score += m.at(at);
      else if (m.at(at) == 0)
        score = -HUGE_VAL;
    }
    w.p[j] = score;
    top = std::fmax(top, score);
  }
  for (double& p : w.p) sum += p = top == -HUGE_VAL ? 0 : std::exp(p - top);
  for (double& p : w.p) p = sum == 0 ? 0 : p / sum;
  return w;
}

int64_t query_rows(const Array& q) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < q.shape.rank(); ++i) rows *= q.shape[i];
  return rows;
}

void attention_run(const Call& c) {
  const int64_t keys = c.in[1].shape[c.in[1].shape.rank() - 2], values = c.in[2].shape.back();
  for (int64_t row = 0; row < query_rows(c.in[0]); ++row) {
    const Weights w = weights_of(c, row);
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t e = 0; e < values; ++e)
        c.out[0].at(row * values + e) +=
            w.p[j] * stored(c, 2, (w.source * keys + j) * values + e, values);
  }
}

void attention_grad(const Call& c) {
  const Array &q = c.in[0], &k = c.in[1], &v = c.in[2], &dy = c.in[4];
  const int64_t keys = k.shape[k.shape.rank() - 2], dim = q.shape.back(), values = v.shape.back();
  for (int64_t row = 0; row < query_rows(q); ++row) {
    const Weights w = weights_of(c, row);
    std::vector<double> dp(keys, 0);
    double mean = 0;
    for (int64_t j = 0; j < keys; ++j) {
      const auto i = static_cast<size_t>(j);
      for (int64_t e = 0; e < values; ++e) {
        const int64_t at = (w.source * keys + j) * values + e;
        dp[i] += dy.at(row * values + e) * v.at(at);
        c.out[2].at(at) += w.p[i] * dy.at(row * values + e);
      }
      mean += w.p[i] * dp[i];
    }
    for (int64_t j = 0; j < keys; ++j) {
      const auto i = static_cast<size_t>(j);
      const double ds = w.p[i] * (dp[i] - mean) * w.scale;
      for (int64_t e = 0; e < dim; ++e) {
        const int64_t at = (w.source * keys + j) * dim + e;
        c.out[0].at(row * dim + e) += ds * k.at(at);
        c.out[1].at(at) += ds * q.at(row * dim + e);
      }
    }
  }
}

constexpr Row kRows[] = {{"attention", attention_run},
                         {"mixed_attention", attention_run},
                         {"attention_grad", attention_grad}};

}  // namespace

std::span<const Row> attention() { return kRows; }

}  // namespace hg::reference::rows
