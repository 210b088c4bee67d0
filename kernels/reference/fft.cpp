// SPDX-License-Identifier: Apache-2.0
// The discrete Fourier transform by definition.
#include <cmath>
#include <numbers>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// y_k = s sum_j x_j e^(-+2 pi i jk/n), of numbers with or without an imaginary part.
void fft(const Call& c) {
  const Array& x = c.in[0];
  const bool real = x.shape[x.shape.rank() - 1] == 1;
  const int axis = c.attrs.axis("dim", x.shape.rank());
  const int64_t n = x.shape[axis];
  const double sign = c.attrs.flag("inverse") ? 1 : -1;
  const std::string& norm = c.attrs.string("norm");
  const double size = static_cast<double>(n);
  const double scale = norm == "n" ? 1 / size : norm == "sqrt" ? 1 / std::sqrt(size) : 1;
  for (int64_t i = 0; i < c.out[0].count(); i += 2) {
    Sizes p = position(c.out[0].shape, i);
    const int64_t k = p[axis];
    double re = 0, im = 0;
    for (int64_t j = 0; j < n; ++j) {
      p[axis] = j;
      const int64_t from = flat(x.shape, p);
      const double angle = sign * 2 * std::numbers::pi * static_cast<double>(j * k % n) / size;
      const double a = x.at(from), b = real ? 0 : x.at(from + 1);
      re += a * std::cos(angle) - b * std::sin(angle);
      im += a * std::sin(angle) + b * std::cos(angle);
    }
    c.out[0].at(i) = re * scale;
    c.out[0].at(i + 1) = im * scale;
  }
}

constexpr Row kRows[] = {
    {"fft", fft},
    {"fft_of_real", fft},
};

}  // namespace

std::span<const Row> fft() { return kRows; }

}  // namespace hg::reference::rows
