// SPDX-License-Identifier: Apache-2.0
// The discrete Fourier transform by definition.
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/reference/reference.h"

namespace hg::reference::rows {
namespace {

double fft_scale(const Call& c, int64_t n) {
  const std::string& norm = c.attrs.string("norm");
  const double size = static_cast<double>(n);
  return norm == "n" ? 1 / size : norm == "sqrt" ? 1 / std::sqrt(size) : 1;
}

// y_k = s sum_j x_j e^(-+2 pi i jk/n), for numbers with or without an imaginary part.
void fft(const Call& c) {
  const Array& x = c.in[0];
  const bool real = x.shape[x.shape.rank() - 1] == 1;
  const int axis = c.attrs.axis("dim", x.shape.rank());
  const int64_t n = x.shape[axis];
  const double sign = c.attrs.flag("inverse") ? 1 : -1;
  const double size = static_cast<double>(n), scale = fft_scale(c, n);
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
// y_j = s sum_k Re(x_k e^(-+2 pi i jk/n)): numbers after the first n/2 + 1 are conjugates, and
// numbers that are their own conjugates are real.
void fft_to_real(const Call& c) {
  const Array& x = c.in[0];
  const int axis = c.attrs.axis("dim", x.shape.rank());
  const int64_t n = c.out[0].shape[axis];
  const double sign = c.attrs.flag("inverse") ? 1 : -1;
  for_positions(c.out[0].shape, [&](int64_t i, Sizes p) {
    const int64_t j = p[axis];
    double sum = 0;
    for (int64_t k = 0; k <= n / 2; ++k) {
      p[axis] = k;
      const int64_t at = flat(x.shape, p);
      if (2 * k % n == 0) {
        sum += j * k % n == 0 ? x.at(at) : -x.at(at);
        continue;
      }
      const double angle =
          2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
      sum += 2 * (x.at(at) * std::cos(angle) - sign * x.at(at + 1) * std::sin(angle));
    }
    c.out[0].at(i) = sum * fft_scale(c, n);
  });
}
double fft_work(const Call& c) {
  const int axis = c.attrs.axis("dim", c.in[0].shape.rank());
  return 4.0 * static_cast<double>(c.in[0].shape[axis]) * static_cast<double>(c.out[0].count()) / 2;
}

constexpr Row kRows[] = {
    {"fft", fft, fft_work},
    {"fft_of_real", fft, fft_work},
    {"fft_to_real", fft_to_real, fft_work},
};

}  // namespace

std::span<const Row> fft() { return kRows; }

}  // namespace hg::reference::rows
