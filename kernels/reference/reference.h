// SPDX-License-Identifier: Apache-2.0
// The specification of every kernel: plain loops over doubles, for tests and for the check of ONNX
// files. They must be obviously correct; speed does not matter, but no loop does more than its
// arithmetic. Elements are doubles in row-major order for every dtype (samples use no integers
// beyond 2^53).
#pragma once

#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "hg/kernel.h"

namespace hg::reference {

struct Array {
  DType dtype = f32;  // the dtype the op sees; results are rounded to it by the caller
  Sizes shape;
  std::vector<double> values;
  bool given = true;  // false for an optional input that is not given
  double& at(int64_t i) { return values[i]; }
  double at(int64_t i) const { return values[i]; }
  int64_t count() const { return shape.count(); }
};

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The position of the flat row-major index `at` in `shape`, and the inverse.
inline Sizes position(const Sizes& shape, int64_t at) {
  Sizes p(shape.rank(), 0);
  for (int i = shape.rank() - 1; i >= 0; --i) {
    p[i] = at % shape[i];
    at /= shape[i];
  }
  return p;
}
inline int64_t flat(const Sizes& shape, const Sizes& p) {
  int64_t at = 0;
  for (int i = 0; i < shape.rank(); ++i) at = at * shape[i] + p[i];
  return at;
}

// Calls f(i, p) for every flat index i of `shape` and its position p.
template <class F>
void for_positions(const Sizes& shape, const F& f) {
  Sizes p(shape.rank(), 0);
  for (int64_t i = 0, count = shape.count(); i < count; ++i) {
    f(i, static_cast<const Sizes&>(p));
    for (int d = shape.rank() - 1; d >= 0 && ++p[d] == shape[d]; --d) p[d] = 0;
  }
}

// The lines of `x` along attribute `dim`; without it, x is one line. Element i of line l is at (l,
// i).
struct Lines {
  int64_t stride = 1, length = 1, count = 0;
  Lines(const Array& x, const KernelAttrs& attrs) {
    const int rank = x.shape.rank();
    const bool flat = rank == 0 || !attrs.has("dim");
    const int axis = flat ? 0 : attrs.axis("dim", rank);
    for (int d = axis + 1; d < rank && !flat; ++d) stride *= x.shape[d];
    length = flat ? x.count() : x.shape[axis];
    count = length == 0 ? 0 : x.count() / length;
  }
  // With lines of another length, as in results.
  int64_t at(int64_t line, int64_t i, int64_t of_length) const {
    return (line / stride * of_length + i) * stride + line % stride;
  }
  int64_t at(int64_t line, int64_t i) const { return at(line, i, length); }
};

struct Call {
  std::span<const Array> in;
  std::span<Array> out;  // dtype and shape are set, values are zero
  const KernelAttrs& attrs;
};

inline bool given(const Call& c, size_t i) { return i < c.in.size() && c.in[i].given; }

// A list attribute with one integer per spatial dim. A list of one integer applies to all dims.
inline Sizes listed(const KernelAttrs& attrs, std::string_view name, int dims) {
  const Sizes all = attrs.integers(name);
  return all.rank() == 1 ? Sizes(dims, all[0]) : all;
}

struct Row {
  std::string_view op;
  void (*run)(const Call&);
  // Multiplications and additions for the shapes of the call; null if they are those that the op
  // itself counts.
  double (*work)(const Call&) = nullptr;
};

// Returns the row of an op, or null.
const Row* find(std::string_view op);

}  // namespace hg::reference
