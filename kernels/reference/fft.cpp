// SPDX-License-Identifier: Apache-2.0
// The discrete Fourier transform by definition.
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

// y_k = s sum_j x_j e^(-+2 pi i jk/n), for numbers with or without an imaginary part.
void fft(const Call& c) {
  const Array& x = c.in[0];
  const bool real = x.shape[x.shape.rank() - 1] == 1;
  const int axis = c.attrs.axis("dim", x.shape.rank());
  const int64_t n = x.shape[axis];
  const double sign = c.attrs.flag("inverse") ? 1 : -1;
  const std::string& norm = c.attrs.string("norm");
  const double size = static_cast<double>(n);
  const double scale = norm == "n" ? 1 / size : norm == "sqrt" ? 1 / std::sqrt(size) : 1;
  std::vector<double> cosine, sine;  // of 2 pi k/n
  for (int64_t k = 0; k < n; ++k) {
    const double angle = sign * 2 * std::numbers::pi * static_cast<double>(k) / size;
    cosine.push_back(std::cos(angle));
    sine.push_back(std::sin(angle));
  }
  for_positions(c.out[0].shape, [&](int64_t i, Sizes p) {
    if (i % 2 != 0) return;
    const int64_t k = p[axis];
    p[axis] = 1;
    const int64_t second = flat(x.shape, p);
    p[axis] = 0;
    const int64_t first = flat(x.shape, p), step = second - first;
    double re = 0, im = 0;
    for (int64_t j = 0, turn = 0; j < n; ++j, turn = (turn + k) % n) {
      const int64_t from = first + j * step;
      const double a = x.at(from), b = real ? 0 : x.at(from + 1);
      re += a * cosine[turn] - b * sine[turn];
      im += a * sine[turn] + b * cosine[turn];
    }
    c.out[0].at(i) = re * scale;
    c.out[0].at(i + 1) = im * scale;
  });
}
double fft_work(const Call& c) {
  const int axis = c.attrs.axis("dim", c.in[0].shape.rank());
  return 4.0 * static_cast<double>(c.in[0].shape[axis]) * static_cast<double>(c.out[0].count() / 2);
}

constexpr Row kRows[] = {
    {"fft", fft, fft_work},
    {"fft_of_real", fft, fft_work},
};

}  // namespace

std::span<const Row> fft() { return kRows; }

}  // namespace hg::reference::rows
