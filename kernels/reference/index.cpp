// SPDX-License-Identifier: Apache-2.0
// Ops that read or write elements by index, one element at a time, in row-major order.
#include <algorithm>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

int64_t integer_at(const Array& array, int64_t i) { return static_cast<int64_t>(array.at(i)); }

void gather(const Call& c) {
  const int dim = c.attrs.axis("dim", c.in[0].shape.rank());
  for (int64_t i = 0; i < c.out[0].count(); ++i) {
    Sizes p = position(c.out[0].shape, i);
    p[dim] = integer_at(c.in[1], i);
    c.out[0].at(i) = c.in[0].at(flat(c.in[0].shape, p));
  }
}

void index_select(const Call& c) {
  const int dim = c.attrs.axis("dim", c.in[0].shape.rank());
  for (int64_t i = 0; i < c.out[0].count(); ++i) {
    Sizes p = position(c.out[0].shape, i);
    p[dim] = integer_at(c.in[1], p[dim]);
    c.out[0].at(i) = c.in[0].at(flat(c.in[0].shape, p));
  }
}

void embedding(const Call& c) {
  const int64_t width = c.in[0].shape[1];
  for (int64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].at(i) = c.in[0].at(integer_at(c.in[1], i / width) * width + i % width);
}

// The element of x that the k-th element of the indexed dims stands for; `rest` are the other dims.
Sizes indexed(const Sizes& shape, std::span<const Array> indices, int64_t k, const Sizes& rest) {
  Sizes p;
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t at = integer_at(indices[i], k), size = shape[static_cast<int>(i)];
    p.push_back(at < 0 ? at + size : at);
  }
  for (const int64_t r : rest) p.push_back(r);
  return p;
}

Sizes trailing(const Sizes& shape, size_t from) {
  Sizes rest;
  for (int i = static_cast<int>(from); i < shape.rank(); ++i) rest.push_back(shape[i]);
  return rest;
}

// The leading dims of x are indexed by tensors of one shape.
void index_tensor(const Call& c) {
  const auto indices = c.in.subspan(1);
  const Sizes rest = trailing(c.in[0].shape, indices.size());
  for (int64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].at(i) =
        c.in[0].at(flat(c.in[0].shape, indexed(c.in[0].shape, indices, i / rest.count(),
                                               position(rest, i % rest.count()))));
}

void index_put(const Call& c) {
  const auto indices = c.in.subspan(2);
  const Sizes rest = trailing(c.in[0].shape, indices.size());
  for (int64_t i = 0; i < c.out[0].count(); ++i) c.out[0].at(i) = c.in[0].at(i);
  for (int64_t i = 0; i < c.in[1].count(); ++i) {
    double& y = c.out[0].at(flat(c.in[0].shape, indexed(c.in[0].shape, indices, i / rest.count(),
                                                        position(rest, i % rest.count()))));
    y = c.attrs.flag("accumulate") ? y + c.in[1].at(i) : c.in[1].at(i);
  }
}

void one_hot(const Call& c) {
  const int64_t classes = c.out[0].shape.back();
  for (int64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].at(i) = integer_at(c.in[0], i / classes) == i % classes;
}

// src goes to the place `place(i)` of x for each i, reduced with what is there.
template <class Place>
void reduce_into(const Call& c, const Array& src, int64_t count, const Place& place) {
  const std::string& reduce = c.attrs.string("reduce");
  const bool with_self = c.attrs.flag("include_self") || reduce == "none";
  std::vector<double> counts(c.out[0].values.size(), with_self ? 1 : 0);
  for (int64_t i = 0; i < c.out[0].count(); ++i) c.out[0].at(i) = c.in[0].at(i);
  for (int64_t i = 0; i < count; ++i) {
    const auto [to, from] = place(i);
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
  }
  if (reduce != "mean") return;
  for (int64_t i = 0; i < c.out[0].count(); ++i)
    if (counts[i] > 0) c.out[0].at(i) /= counts[i];
}

struct Move {
  int64_t to, from;
};

void scatter(const Call& c) {
  const int dim = c.attrs.axis("dim", c.in[0].shape.rank());
  reduce_into(c, c.in[2], c.in[1].count(), [&](int64_t i) {
    Sizes p = position(c.in[1].shape, i);
    const int64_t from = flat(c.in[2].shape, p);
    p[dim] = integer_at(c.in[1], i);
    return Move{flat(c.in[0].shape, p), from};
  });
}

void index_reduce(const Call& c) {
  const int dim = c.attrs.axis("dim", c.in[0].shape.rank());
  reduce_into(c, c.in[2], c.in[2].count(), [&](int64_t i) {
    Sizes p = position(c.in[2].shape, i);
    p[dim] = integer_at(c.in[1], p[dim]);
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
  for (int64_t i = 0; i < c.in[0].count(); ++i)
    if (c.in[0].at(i) != 0)
      for (int64_t p : position(c.in[0].shape, i)) c.out[0].at(found++) = static_cast<double>(p);
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
    {"masked_scatter", masked_scatter},
    {"nonzero", nonzero},
    {"repeat_interleave", repeat_interleave},
};

}  // namespace

std::span<const Row> index() { return kRows; }

}  // namespace hg::reference::rows
