// SPDX-License-Identifier: Apache-2.0
// Pooling: every output element visits the input elements of its window.
#include <cmath>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// The position of the flat index `at` in the spatial dims of `shape`.
Sizes spatial_position(const Sizes& shape, int64_t at) {
  Sizes p(shape.rank() - 2, 0);
  for (int i = shape.rank() - 1; i >= 2; --i) {
    p[i - 2] = at % shape[i];
    at /= shape[i];
  }
  return p;
}
int64_t plane_count(const Sizes& shape) {
  int64_t count = 1;
  for (int i = 2; i < shape.rank(); ++i) count *= shape[i];
  return count;
}
enum class Kind { max, avg, adaptive };

struct Windows {
  Kind kind;
  Sizes in, out;  // whole shapes
  Sizes kernel = {}, stride = {}, padding = {}, dilation = {};
  bool counts_padding = false;
  int64_t given_divisor = 0;  // 0: none

  Windows(const KernelAttrs& attrs, Kind k, const Sizes& in_shape, const Sizes& out_shape)
      : kind(k), in(in_shape), out(out_shape) {
    if (kind == Kind::adaptive) return;
    const int dims = in.rank() - 2;
    kernel = listed(attrs, "kernel_size", dims);
    stride = attrs.integers("stride").empty() ? kernel : listed(attrs, "stride", dims);
    padding = listed(attrs, "padding", dims);
    dilation = kind == Kind::max ? listed(attrs, "dilation", dims) : Sizes(dims, 1);
    if (kind == Kind::max) return;
    counts_padding = attrs.flag("count_include_pad");
    if (attrs.has("divisor_override")) given_divisor = attrs.integer("divisor_override");
  }

  // Calls visit(k) for every element of the input in window `o`; k is its position in the plane.
  template <class Visit>
  void walk(const Sizes& o, const Visit& visit, int dim = 0, int64_t above = 0) const {
    if (dim == o.rank()) return visit(above);
    const int64_t size = in[dim + 2], parts = out[dim + 2];
    const bool adaptive = kind == Kind::adaptive;
    const int64_t step = adaptive ? 1 : dilation[dim];
    const int64_t first = adaptive ? o[dim] * size / parts : o[dim] * stride[dim] - padding[dim];
    const int64_t end =
        adaptive ? ((o[dim] + 1) * size + parts - 1) / parts : first + kernel[dim] * step;
    for (int64_t p = first; p < end; p += step)
      if (p >= 0 && p < size) walk(o, visit, dim + 1, above * size + p);
  }
  double divisor(const Sizes& o) const {
    int64_t inside = 0, padded = 1;
    walk(o, [&](int64_t) { ++inside; });
    if (kind == Kind::adaptive) return static_cast<double>(inside);
    if (given_divisor != 0) return static_cast<double>(given_divisor);
    if (!counts_padding) return static_cast<double>(inside);
    for (int i = 0; i < o.rank(); ++i) {
      int64_t count = 0;
      for (int64_t k = 0; k < kernel[i]; ++k)
        count += o[i] * stride[i] - padding[i] + k < in[i + 2] + padding[i];
      padded *= count;
    }
    return static_cast<double>(padded);
  }
};

// The position in its plane of the largest element of window `at`, counted over all planes.
int64_t largest(const Windows& w, const Call& c, int64_t at) {
  const int64_t in = plane_count(w.in), out = plane_count(w.out);
  const Sizes o = spatial_position(w.out, at % out);
  double best = -HUGE_VAL;
  int64_t index = -1;
  w.walk(o, [&](int64_t k) {
    const double v = c.in[0].at(at / out * in + k);
    if (index < 0 || v > best || std::isnan(v)) {
      best = v;
      index = k;
    }
  });
  return index;
}

void max_of(const Call& c, Kind kind) {
  const Windows w{c.attrs, kind, c.in[0].shape, c.out[0].shape};
  const int64_t in = plane_count(w.in), out = plane_count(w.out);
  for (int64_t at = 0; at < c.out[0].count(); ++at) {
    const int64_t index = largest(w, c, at);
    c.out[0].at(at) = c.in[0].at(at / out * in + index);
    if (c.out.size() > 1) c.out[1].at(at) = static_cast<double>(index);
  }
}

void max_pool_grad_run(const Call& c) {
  const Windows w{c.attrs, Kind::max, c.in[0].shape, c.in[1].shape};
  const int64_t in = plane_count(w.in), out = plane_count(w.out);
  for (int64_t at = 0; at < c.in[1].count(); ++at)
    c.out[0].at(at / out * in + largest(w, c, at)) += c.in[1].at(at);
}

void avg_of(const Call& c, Kind kind) {
  const Windows w{c.attrs, kind, c.in[0].shape, c.out[0].shape};
  const int64_t in = plane_count(w.in), out = plane_count(w.out);
  for (int64_t at = 0; at < c.out[0].count(); ++at) {
    const Sizes o = spatial_position(w.out, at % out);
    double sum = 0;
    w.walk(o, [&](int64_t k) { sum += c.in[0].at(at / out * in + k); });
    c.out[0].at(at) = sum == 0 ? 0 : sum / w.divisor(o);
  }
}

void avg_grad_of(const Call& c, Kind kind) {
  const Windows w{c.attrs, kind, c.out[0].shape, c.in[0].shape};
  const int64_t in = plane_count(w.in), out = plane_count(w.out);
  for (int64_t at = 0; at < c.in[0].count(); ++at) {
    const Sizes o = spatial_position(w.out, at % out);
    const double share = c.in[0].at(at) / w.divisor(o);
    w.walk(o, [&](int64_t k) { c.out[0].at(at / out * in + k) += share; });
  }
}

void max_pool_run(const Call& c) { max_of(c, Kind::max); }
void adaptive_max_run(const Call& c) { max_of(c, Kind::adaptive); }
void avg_pool_run(const Call& c) { avg_of(c, Kind::avg); }
void adaptive_avg_run(const Call& c) { avg_of(c, Kind::adaptive); }
void avg_pool_grad_run(const Call& c) { avg_grad_of(c, Kind::avg); }
void adaptive_avg_grad_run(const Call& c) { avg_grad_of(c, Kind::adaptive); }

constexpr Row kRows[] = {
    {"max_pool", max_pool_run},
    {"max_pool_grad", max_pool_grad_run},
    {"max_pool_with_indices", max_pool_run},
    {"avg_pool", avg_pool_run},
    {"avg_pool_grad", avg_pool_grad_run},
    {"adaptive_avg_pool", adaptive_avg_run},
    {"adaptive_avg_pool_grad", adaptive_avg_grad_run},
    {"adaptive_max_pool", adaptive_max_run},
};

}  // namespace

std::span<const Row> pool() { return kRows; }

}  // namespace hg::reference::rows
