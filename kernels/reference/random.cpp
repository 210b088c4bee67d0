// SPDX-License-Identifier: Apache-2.0
// Random numbers of the first run of a session with seed 0: Philox 4x32-10 as defined in the paper
// (Salmon et al. 2011, figure 2 and table 2), two words per number.
#include <array>
#include <cmath>
#include <numbers>

#include "kernels/reference/pointwise.h"

namespace hg::reference::rows {
namespace {

// Words 0 and 1, or 2 and 3, as a number in [0, 1) with 53 bits.
double uniform(int64_t index, int64_t stream) {
  const int64_t block = index / 2;
  std::array<uint64_t, 4> word = {static_cast<uint64_t>(block) % (uint64_t{1} << 32),
                                  static_cast<uint64_t>(block) >> 32, static_cast<uint64_t>(stream),
                                  0};
  std::array<uint64_t, 2> key = {0, 0};
  const auto low = [](uint64_t x) { return x % (uint64_t{1} << 32); };
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = 0xD2511F53 * word[0], b = 0xCD9E8D57 * word[2];
    word = {(b >> 32) ^ word[1] ^ key[0], low(b), (a >> 32) ^ word[3] ^ key[1], low(a)};
    key = {low(key[0] + 0x9E3779B9), low(key[1] + 0xBB67AE85)};
  }
  const size_t at = index % 2 == 0 ? 0 : 2;
  return static_cast<double>((word[at] << 32 | word[at + 1]) >> 11) * 0x1p-53;
}

// 1 stays excluded in every dtype: numbers are truncated, not rounded.
double cut(double value, DType dtype) {
  const double steps = dtype == f64   ? 0x1p53
                       : dtype == f32 ? 0x1p24
                       : dtype == f16 ? 0x1p11
                                      : 0x1p8;
  return std::floor(value * steps) / steps;
}

void rand(const Call& c) {
  for (int64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].at(i) = cut(uniform(i, c.attrs.integer("stream")), c.out[0].dtype);
}

// Box and Muller 1958: two numbers from two.
void randn(const Call& c) {
  for (int64_t i = 0; i < c.out[0].count(); ++i) {
    const int64_t stream = c.attrs.integer("stream"), even = i / 2 * 2;
    const double radius = std::sqrt(-2 * std::log(1 - uniform(even, stream)));
    const double angle = 2 * std::numbers::pi * uniform(even + 1, stream);
    c.out[0].at(i) = radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }
}

// One draw per element, or per channel of each sample.
void dropout(const Call& c) {
  const double p = c.attrs.real("p");
  Sizes drawn = c.in[0].shape;
  for (int d = 2; d < drawn.rank() && c.attrs.flag("channels"); ++d) drawn[d] = 1;
  const bool drops = c.attrs.flag("training") && p != 0;
  for_positions(c.in[0].shape, [&](int64_t i, Sizes at) {
    const double x = c.in[0].at(i);
    if (!drops) {
      c.out[0].at(i) = x;
      return;
    }
    for (int d = 2; d < drawn.rank(); ++d) at[d] = std::min(at[d], drawn[d] - 1);
    const double noise = cut(uniform(flat(drawn, at), c.attrs.integer("stream")), f32);
    c.out[0].at(i) = noise >= p ? x / (1 - p) : 0;
  });
}

constexpr Row kRows[] = {{"rand", rand}, {"randn", randn}, {"dropout", dropout}};

}  // namespace

std::span<const Row> random() { return kRows; }

}  // namespace hg::reference::rows
