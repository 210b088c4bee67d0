// SPDX-License-Identifier: Apache-2.0
// Scaled dot product attention, one query at a time.
#include <cmath>
#include <vector>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

void attention_run(const Call& c) {
  const Array &q = c.in[0], &k = c.in[1], &v = c.in[2];
  const int rank = q.shape.rank();
  const int64_t times = q.shape[rank - 2], dim = q.shape[rank - 1];
  const int64_t keys = k.shape[rank - 2], values = v.shape[rank - 1];
  const int64_t heads = rank > 2 ? q.shape[rank - 3] : 1,
                key_heads = rank > 2 ? k.shape[rank - 3] : 1;
  const double scale =
      c.attrs.has("scale") ? c.attrs.real("scale") : 1 / std::sqrt(static_cast<double>(dim));
  const bool masked = c.in.size() > 3 && c.in[3].given;
  for (int64_t row = 0; row < (times == 0 ? 0 : q.count() / (dim == 0 ? 1 : dim)); ++row) {
    const int64_t t = row % times, head = row / times % heads, batch = row / times / heads;
    const int64_t source = batch * key_heads + head / (heads / key_heads);
    std::vector<double> p(static_cast<size_t>(keys));
    double top = -HUGE_VAL, sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (int64_t e = 0; e < dim; ++e)
        score += q.at(row * dim + e) * k.at((source * keys + j) * dim + e);
      score *= scale;
      if (c.attrs.flag("causal") && j > t) score = -HUGE_VAL;
      if (masked) {  // the mask broadcasts to [batch..., heads, times, keys]
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
      p[static_cast<size_t>(j)] = score;
      top = std::fmax(top, score);
    }
    if (top == -HUGE_VAL) continue;  // no key is seen: 0
    for (double& score : p) sum += score = std::exp(score - top);
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t e = 0; e < values; ++e)
        c.out[0].at(row * values + e) +=
            p[static_cast<size_t>(j)] / sum * v.at((source * keys + j) * values + e);
  }
}

constexpr Row kRows[] = {{"attention", attention_run}};

}  // namespace

std::span<const Row> attention() { return kRows; }

}  // namespace hg::reference::rows
