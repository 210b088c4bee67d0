// SPDX-License-Identifier: Apache-2.0
// Normalizations and softmax, by definition.
#include <cmath>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// Calls f(base, stride, count) for every line of x along the attribute dim.
template <class F>
void for_lines(const Call& c, const F& f) {
  const Sizes& shape = c.in[0].shape;
  if (shape.rank() == 0) return f(0, 1, 1);
  const int axis = c.attrs.axis("dim", shape.rank());
  int64_t inner = 1, outer = 1;
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) f(o * shape[axis] * inner + i, inner, shape[axis]);
}

void softmax_of(const Call& c, bool log) {
  for_lines(c, [&](int64_t base, int64_t stride, int64_t count) {
    double top = -HUGE_VAL, sum = 0;
    for (int64_t i = 0; i < count; ++i) top = std::fmax(top, c.in[0].at(base + i * stride));
    for (int64_t i = 0; i < count; ++i) sum += std::exp(c.in[0].at(base + i * stride) - top);
    for (int64_t i = 0; i < count; ++i) {
      const double d = c.in[0].at(base + i * stride) - top;
      c.out[0].at(base + i * stride) = log ? d - std::log(sum) : std::exp(d) / sum;
    }
  });
}
void softmax_run(const Call& c) { softmax_of(c, false); }
void log_softmax_run(const Call& c) { softmax_of(c, true); }

struct Moments {
  double mean = 0, var = 0;
};
Moments moments(const Array& x, int64_t first, int64_t count) {
  Moments m;
  for (int64_t i = 0; i < count; ++i) m.mean += x.at(first + i) / static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i)
    m.var += std::pow(x.at(first + i) - m.mean, 2) / static_cast<double>(count);
  return m;
}

// Subtracts the mean of each `count` elements of x and divides by their deviation; weight(at) is
// the position of element `at` in the weight and the bias.
template <class Weight>
void normalize(const Call& c, int64_t count, const Weight& weight) {
  const double eps = c.attrs.real("eps");
  for (int64_t first = 0; first < c.out[0].count(); first += count) {
    const Moments m = moments(c.in[0], first, count);
    for (int64_t at = first; at < first + count; ++at) {
      double y = (c.in[0].at(at) - m.mean) / std::sqrt(m.var + eps);
      if (given(c, 1)) y *= c.in[1].at(weight(at));
      if (given(c, 2)) y += c.in[2].at(weight(at));
      c.out[0].at(at) = y;
    }
  }
}

void layer_norm_run(const Call& c) {
  const int64_t count = c.attrs.integers("normalized_shape").count();
  normalize(c, count, [&](int64_t at) { return at % count; });
}

void rms_norm_run(const Call& c) {
  const int64_t count = c.attrs.integers("normalized_shape").count();
  const double eps = c.attrs.real("eps");
  for (int64_t first = 0; first < c.out[0].count(); first += count) {
    double square = 0;
    for (int64_t i = 0; i < count; ++i)
      square += std::pow(c.in[0].at(first + i), 2) / static_cast<double>(count);
    for (int64_t i = 0; i < count; ++i) {
      double y = c.in[0].at(first + i) / std::sqrt(square + eps);
      if (given(c, 1)) y *= c.in[1].at(i);
      c.out[0].at(first + i) = y;
    }
  }
}

void group_norm_run(const Call& c) {
  const Sizes& shape = c.in[0].shape;
  if (c.in[0].count() == 0) return;
  const int64_t groups = c.attrs.integer("groups");
  const int64_t count = c.in[0].count() / (shape[0] * groups), space = count / (shape[1] / groups);
  normalize(c, count, [&](int64_t at) { return at / space % shape[1]; });
}

void batch_norm_run(const Call& c) {
  const Sizes& shape = c.in[0].shape;
  const int64_t channels = shape[1];
  int64_t space = 1;
  for (int i = 2; i < shape.rank(); ++i) space *= shape[i];
  const double count = static_cast<double>(shape[0] * space), eps = c.attrs.real("eps");
  for (int64_t k = 0; k < channels; ++k) {
    const auto each = [&](const auto& f) {  // all elements of the channel
      for (int64_t n = 0; n < shape[0]; ++n)
        for (int64_t i = 0; i < space; ++i) f((n * channels + k) * space + i);
    };
    double mean = 0, var = 0;
    each([&](int64_t at) { mean += c.in[0].at(at) / count; });
    each([&](int64_t at) { var += std::pow(c.in[0].at(at) - mean, 2) / count; });
    if (c.attrs.flag("training") && (count > 0 || !given(c, 3))) {
      const double unbiased = var * count / (count - 1), m = c.attrs.real("momentum");
      c.out[1].at(k) = given(c, 3) ? (1 - m) * c.in[3].at(k) + m * mean : mean;
      c.out[2].at(k) = given(c, 4) ? (1 - m) * c.in[4].at(k) + m * unbiased : unbiased;
    } else {
      mean = c.out[1].at(k) = c.in[3].at(k);
      var = c.out[2].at(k) = c.in[4].at(k);
    }
    each([&](int64_t at) {
      double y = (c.in[0].at(at) - mean) / std::sqrt(var + eps);
      if (given(c, 1)) y *= c.in[1].at(k);
      if (given(c, 2)) y += c.in[2].at(k);
      c.out[0].at(at) = y;
    });
  }
}

constexpr Row kRows[] = {
    {"softmax", softmax_run},   {"log_softmax", log_softmax_run}, {"layer_norm", layer_norm_run},
    {"rms_norm", rms_norm_run}, {"group_norm", group_norm_run},   {"batch_norm", batch_norm_run},
};

}  // namespace

std::span<const Row> norm() { return kRows; }

}  // namespace hg::reference::rows
