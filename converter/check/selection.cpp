// SPDX-License-Identifier: Apache-2.0
#include "converter/check/selection.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "converter/check/compare.h"

namespace hg::convert {
namespace {

// Returns the elements of one line, in the order of its indices; empty if an index is out of range
// or duplicate.
std::vector<double> taken(const Tensor& source, int64_t first, int64_t stride, int64_t size,
                          const std::vector<int64_t>& indices) {
  std::vector<double> result;
  std::vector<bool> seen(size, false);
  for (const int64_t index : indices) {
    if (index < 0 || index >= size || seen[index]) return {};
    seen[index] = true;
    result.push_back(number_at(source, first + index * stride));
  }
  return result;
}

bool are_equal(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

bool selects_equally(const Tensor& source_view, int dim, const Tensor* values,
                     const Tensor& indices_view, const Tensor& other_indices, bool in_order) {
  TensorData owners[3];
  const Result<Tensor> source = row_major(source_view, owners[0]);
  const Result<Tensor> indices = row_major(indices_view, owners[1]);
  if (!source.ok() || !indices.ok() || indices->dtype != i64 || other_indices.dtype != i64 ||
      indices->shape != other_indices.shape)
    return false;
  const bool kept = indices->rank() == source->rank();
  if (!kept && indices->rank() + 1 != source->rank()) return false;
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < source->rank(); ++d) {
    if (d == dim) continue;
    if (source->shape[d] != indices->shape[kept || d < dim ? d : d - 1]) return false;
    (d < dim ? outer : inner) *= source->shape[d];
  }
  const int64_t size = source->rank() == 0 ? 1 : source->shape[dim];
  const int64_t count = kept && source->rank() > 0 ? indices->shape[dim] : 1;
  Tensor held;
  if (values != nullptr) {
    const Result<Tensor> dense = row_major(*values, owners[2]);
    if (!dense.ok() || dense->shape != indices->shape) return false;
    held = *dense;
  }
  for (int64_t line = 0; line < outer * inner; ++line) {
    const int64_t first = line / inner * size * inner + line % inner;
    const int64_t start = line / inner * count * inner + line % inner;
    std::vector<int64_t> mine, others;
    for (int64_t k = 0; k < count; ++k) {
      mine.push_back(indices->as<const int64_t>()[start + k * inner]);
      others.push_back(other_indices.as<const int64_t>()[start + k * inner]);
    }
    std::vector<double> a = taken(*source, first, inner, size, mine);
    std::vector<double> b = taken(*source, first, inner, size, others);
    if (static_cast<int64_t>(a.size()) != count || static_cast<int64_t>(b.size()) != count)
      return false;
    for (int64_t k = 0; k < count && values != nullptr; ++k)
      if (!are_equal(a[k], number_at(held, start + k * inner))) return false;
    if (!in_order)
      for (std::vector<double>* line_values : {&a, &b})
        std::sort(line_values->begin(), line_values->end(),
                  [](double x, double y) { return x < y || (std::isnan(y) && !std::isnan(x)); });
    for (size_t k = 0; k < a.size(); ++k)
      if (!are_equal(a[k], b[k])) return false;
  }
  return true;
}

}  // namespace hg::convert
