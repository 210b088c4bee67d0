// SPDX-License-Identifier: Apache-2.0
// Ops that read or write elements by index, one element at a time, in row-major order.
#include <algorithm>
#include <limits>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

int64_t integer_at(const Array& array, int64_t i) { return static_cast<int64_t>(array.at(i)); }

void gather(const Call& c) {
  const int dim = c.attrs.axis("dim", c.in[0].shape.rank());
  for_positions(c.out[0].shape, [&](int64_t i, Sizes p) {
    p[dim] = integer_at(c.in[1], i);
    c.out[0].at(i) = c.in[0].at(flat(c.in[0].shape, p));
  });
}

void index_select(const Call& c) {
  const int dim = c.attrs.axis("dim", c.in[0].shape.rank());
  for_positions(c.out[0].shape, [&](int64_t i, Sizes p) {
    p[dim] = integer_at(c.in[1], p[dim]);
    c.out[0].at(i) = c.in[0].at(flat(c.in[0].shape, p));
  });
}

void embedding(const Call& c) {
  const int64_t width = c.in[0].shape[1];
  for (int64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].at(i) = c.in[0].at(integer_at(c.in[1], i / width) * width + i % width);
}

// The row of the indexed leading dims that the k-th elements of the indices select; the indices
// have one shape.
int64_t row_at(const Sizes& shape, std::span<const Array> indices, int64_t k) {
  int64_t row = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t at = integer_at(indices[i], k), size = shape[static_cast<int>(i)];
    row = row * size + (at < 0 ? at + size : at);
  }
  return row;
}
// The elements of a row, along the other dims.
int64_t row_length(const Sizes& shape, std::span<const Array> indices) {
  int64_t length = 1;
  for (int i = static_cast<int>(indices.size()); i < shape.rank(); ++i) length *= shape[i];
  return length;
}

void index_tensor(const Call& c) {
  const auto indices = c.in.subspan(1);
  const int64_t length = row_length(c.in[0].shape, indices);
  for (int64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].at(i) = c.in[0].at(row_at(c.in[0].shape, indices, i / length) * length + i % length);
}

void index_put(const Call& c) {
  const auto indices = c.in.subspan(2);
  const int64_t length = row_length(c.in[0].shape, indices);
  const bool accumulates = c.attrs.flag("accumulate");
  for (int64_t i = 0; i < c.out[0].count(); ++i) c.out[0].at(i) = c.in[0].at(i);
  for (int64_t i = 0; i < c.in[1].count(); ++i) {
    double& y = c.out[0].at(row_at(c.in[0].shape, indices, i / length) * length + i % length);
    y = accumulates ? y + c.in[1].at(i) : c.in[1].at(i);
  }
}

void one_hot(const Call& c) {
  const int64_t classes = c.out[0].shape.back();
  for (int64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].at(i) = integer_at(c.in[0], i / classes) == i % classes;
}

// place(i, p) = {to, from}: element `from` of src is written to x at `to`, or reduced with the old
// element, for each position p of `shape`.
template <class Place>
void reduce_into(const Call& c, const Array& src, const Sizes& shape, const Place& place) {
  const std::string& reduce = c.attrs.string("reduce");
  const bool with_self = c.attrs.flag("include_self") || reduce == "none";
  std::vector<double> counts(c.out[0].values.size(), with_self ? 1 : 0);
  for (int64_t i = 0; i < c.out[0].count(); ++i) c.out[0].at(i) = c.in[0].at(i);
  for_positions(shape, [&](int64_t i, const Sizes& p) {
    const auto [to, from] = place(i, p);
    double& y = c.out[0].at(to);
    double& seen = counts[to];
    const double x = src.at(from);
    if (reduce == "none" || seen == 0)
      y = x;
    else if (reduce == "add" || reduce == "mean")
      y += x;
    else if (reduce == "prod")
      y *= x;
    else if (reduce == "amax")
      y = std::max(y, x);
    else
      y = std::min(y, x);
    ++seen;
  });
  if (reduce != "mean") return;
  for (int64_t i = 0; i < c.out[0].count(); ++i)
    if (counts[i] > 0) c.out[0].at(i) /= counts[i];
}

struct Move {
  int64_t to, from;
};

void scatter(const Call& c) {
  const int dim = c.attrs.axis("dim", c.in[0].shape.rank());
  reduce_into(c, c.in[2], c.in[1].shape, [&](int64_t i, Sizes p) {
    const int64_t from = flat(c.in[2].shape, p);
    p[dim] = integer_at(c.in[1], i);
    return Move{flat(c.in[0].shape, p), from};
  });
}

void index_reduce(const Call& c) {
  const int dim = c.attrs.axis("dim", c.in[0].shape.rank());
  reduce_into(c, c.in[2], c.in[2].shape, [&](int64_t i, Sizes p) {
    p[dim] = integer_at(c.in[1], p[dim]);
    return Move{flat(c.in[0].shape, p), i};
  });
}

void index_select_reduce(const Call& c) {
  const std::string& reduce = c.attrs.string("reduce");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double left_out = reduce == "amax" ? -kInfinity : reduce == "amin" ? kInfinity : 0;
  Sizes shape = c.in[2].shape;
  shape[0] = c.in[3].shape[0];
  Array src = c.in[2];
  src.shape = shape;
  src.values.assign(static_cast<size_t>(shape.count()), left_out);
  for_positions(shape, [&](int64_t i, Sizes p) {
    const int64_t k = p[0];
    if (given(c, 5) && c.in[5].at(k) == 0) return;
    p[0] = integer_at(c.in[3], k);
    src.at(i) = c.in[2].at(flat(c.in[2].shape, p)) * (given(c, 4) ? c.in[4].at(k) : 1);
  });
  reduce_into(c, src, shape, [&](int64_t i, Sizes p) {
    p[0] = integer_at(c.in[1], p[0]);
    return Move{flat(c.in[0].shape, p), i};
  });
}

void masked_scatter(const Call& c) {
  int64_t next = 0;
  for (int64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].at(i) = c.in[1].at(i) != 0 ? c.in[2].at(next++) : c.in[0].at(i);
}

void nonzero(const Call& c) {
  int64_t found = 0;
  for_positions(c.in[0].shape, [&](int64_t i, const Sizes& p) {
    for (int d = 0; d < p.rank() && c.in[0].at(i) != 0; ++d)
      c.out[0].at(found++) = static_cast<double>(p[d]);
  });
}

void repeat_interleave(const Call& c) {
  int64_t at = 0;
  for (int64_t i = 0; i < c.in[0].count(); ++i)
    for (int64_t k = 0; k < integer_at(c.in[0], i); ++k) c.out[0].at(at++) = static_cast<double>(i);
}

constexpr Row kRows[] = {
    {"gather", gather},
    {"index_select", index_select},
    {"embedding", embedding},
    {"index", index_tensor},
    {"index_put", index_put},
    {"one_hot", one_hot},
    {"scatter", scatter},
    {"index_reduce", index_reduce},
    {"index_select_reduce", index_select_reduce},
    {"masked_scatter", masked_scatter},
    {"nonzero", nonzero},
    {"repeat_interleave", repeat_interleave},
};

}  // namespace

std::span<const Row> index() { return kRows; }

}  // namespace hg::reference::rows
