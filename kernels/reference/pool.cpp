// SPDX-License-Identifier: Apache-2.0
// Pooling: for every output element, look at every input element and ask whether it is in the
// window.
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
int64_t listed(const KernelAttrs& attrs, std::string_view name, int i) {
  const Sizes all = attrs.integers(name);
  return all.rank() == 1 ? all[0] : all[i];
}

enum class Kind { max, avg, adaptive };

struct Windows {
  const KernelAttrs& attrs;
  Kind kind;
  Sizes in, out;  // whole shapes

  int64_t stride(int i) const {
    return listed(attrs, attrs.integers("stride").empty() ? "kernel_size" : "stride", i);
  }
  bool contains(const Sizes& o, const Sizes& p) const {
    for (int i = 0; i < o.rank(); ++i) {
      if (kind == Kind::adaptive) {
        const int64_t s = in[i + 2], t = out[i + 2];
        if (p[i] < o[i] * s / t || p[i] >= ((o[i] + 1) * s + t - 1) / t) return false;
        continue;
      }
      const int64_t d = kind == Kind::max ? listed(attrs, "dilation", i) : 1;
      const int64_t offset = p[i] - o[i] * stride(i) + listed(attrs, "padding", i);
      if (offset < 0 || offset % d != 0 || offset / d >= listed(attrs, "kernel_size", i))
        return false;
    }
    return true;
  }
  double divisor(const Sizes& o) const {
    int64_t inside = 0, padded = 1;
    for (int64_t k = 0; k < plane_count(in); ++k) inside += contains(o, spatial_position(in, k));
    if (kind == Kind::adaptive) return static_cast<double>(inside);
    if (attrs.has("divisor_override"))
      return static_cast<double>(attrs.integer("divisor_override"));
    if (!attrs.flag("count_include_pad")) return static_cast<double>(inside);
    for (int i = 0; i < o.rank(); ++i) {
      int64_t count = 0;
      for (int64_t k = 0; k < listed(attrs, "kernel_size", i); ++k) {
        const int64_t at = o[i] * stride(i) - listed(attrs, "padding", i) + k;
        count += at < in[i + 2] + listed(attrs, "padding", i);
      }
      padded *= count;
    }
    return static_cast<double>(padded);
  }
};

// The position in its plane of the largest element of window `at` of all.
int64_t largest(const Windows& w, const Call& c, int64_t at) {
  const int64_t in = plane_count(w.in), out = plane_count(w.out);
  double best = -HUGE_VAL;
  int64_t index = -1;
  for (int64_t k = 0; k < in; ++k) {
    if (!w.contains(spatial_position(w.out, at % out), spatial_position(w.in, k))) continue;
    const double v = c.in[0].at(at / out * in + k);
    if (index < 0 || v > best || std::isnan(v)) {
      best = v;
      index = k;
    }
  }
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
    for (int64_t k = 0; k < in; ++k)
      if (w.contains(o, spatial_position(w.in, k))) sum += c.in[0].at(at / out * in + k);
    c.out[0].at(at) = sum == 0 ? 0 : sum / w.divisor(o);
  }
}

void avg_grad_of(const Call& c, Kind kind) {
  const Windows w{c.attrs, kind, c.out[0].shape, c.in[0].shape};
  const int64_t in = plane_count(w.in), out = plane_count(w.out);
  for (int64_t at = 0; at < c.in[0].count(); ++at) {
    const Sizes o = spatial_position(w.out, at % out);
    for (int64_t k = 0; k < in; ++k)
      if (w.contains(o, spatial_position(w.in, k)))
        c.out[0].at(at / out * in + k) += c.in[0].at(at) / w.divisor(o);
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
