// SPDX-License-Identifier: Apache-2.0
// 8- and 4-bit weights: looks up each level in its byte.
#include <string_view>

#include "kernels/pointwise/activation.h"
#include "kernels/reference/rnn.h"

namespace hg::reference::rows {
namespace {

// The signed 4 bits of a byte, which is from -128 to 127.
double half_of(double byte, bool high) {
  const int bits = static_cast<int>(byte) & 255;
  const int level = high ? bits / 16 : bits % 16;
  return level < 8 ? level : level - 16;
}

// The level in row o and column p along k.
double level_at(const Call& c, const Array& levels, int64_t k, int64_t o, int64_t p) {
  const std::string_view packing = c.attrs.string("packing");
  const int64_t rows = levels.shape[0], bytes = levels.shape[1];
  if (packing == "rows") return half_of(levels.at(o % rows * k + p), o >= rows);
  if (packing == "halves") return half_of(levels.at(o * bytes + p % bytes), p >= bytes);
  if (packing == "pairs") return half_of(levels.at(o * bytes + p / 2), p % 2 == 1);
  return levels.at(o * k + p);
}

// The weight of a row and a column, of k. Input `levels` has the levels, the next one the scales,
// and input 3 offsets, if it is given.
double weight_at(const Call& c, int levels, int64_t group, int64_t k, int64_t o, int64_t p) {
  const Array& scales = c.in[levels + 1];
  const int64_t block = o * scales.shape[1] + p / group;
  const double offset = given(c, 3) ? c.in[3].at(block) : 0;
  return level_at(c, c.in[levels], k, o, p) * scales.at(block) + offset;
}

// Sums over the dim `along` of x, whose elements are `step` apart.
void product_along(const Call& c, int along, int64_t step) {
  const Array& x = c.in[0];
  const Activation activation = *parse_activation(c.attrs.string("activation"));
  const int64_t n = c.in[2].shape[0], k = x.shape[along], group = c.attrs.integer("group");
  for (int64_t at = 0; at < c.out[0].count(); ++at) {
    const int64_t o = at / step % n, first = at / step / n * k * step + at % step;
    double sum = 0;
    for (int64_t p = 0; p < k; ++p) sum += x.at(first + p * step) * weight_at(c, 1, group, k, o, p);
    if (given(c, 4)) sum += c.in[4].at(o);
    if (given(c, 5)) sum += c.in[5].at(at);
    c.out[0].at(at) = kernels::activate(activation, sum);
  }
}

void quantized_linear_run(const Call& c) { product_along(c, c.in[0].shape.rank() - 1, 1); }

void quantized_conv_run(const Call& c) {
  int64_t pixels = 1;
  for (int d = 2; d < c.in[0].shape.rank(); ++d) pixels *= c.in[0].shape[d];
  product_along(c, 1, pixels);
}

void quantized_matmul_run(const Call& c) {
  const Array& x = c.in[0];
  const int64_t n = c.in[2].shape[0], k = c.out[0].shape.back();
  const int64_t group = c.attrs.integer("group");
  for (int64_t at = 0; at < c.out[0].count(); ++at) {
    const int64_t p = at % k;
    double sum = 0;
    for (int64_t o = 0; o < n; ++o) sum += x.at(at / k * n + o) * weight_at(c, 1, group, k, o, p);
    c.out[0].at(at) = sum;
  }
}

void quantized_embedding_run(const Call& c) {
  const int64_t k = c.out[0].shape.back(), group = c.attrs.integer("group");
  for (int64_t at = 0; at < c.out[0].count(); ++at) {
    const int64_t o = static_cast<int64_t>(c.in[2].at(at / k));
    c.out[0].at(at) = weight_at(c, 0, group, k, o, at % k);
  }
}

void quantized_scan_run(const Call& c) {
  const int64_t k = c.in[4].shape[1], group = c.attrs.integer("group");
  Array weight = {.dtype = f32, .shape = {c.in[2].shape[0], k}, .values = {}};
  for (int64_t at = 0; at < weight.count(); ++at)
    weight.values.push_back(weight_at(c, 1, group, k, at / k, at % k));
  scan({.cell = *parse_cell(c.attrs.string("cell")),
        .gates = c.in[0],
        .h0 = c.in[4],
        .weight = weight,
        .c0 = given(c, 6) ? &c.in[6] : nullptr,
        .bias = given(c, 5) ? &c.in[5] : nullptr,
        .reverse = c.attrs.flag("reverse")},
       c.out);
}

constexpr Row kRows[] = {{"quantized_linear", quantized_linear_run},
                         {"quantized_conv", quantized_conv_run},
                         {"quantized_matmul", quantized_matmul_run},
                         {"quantized_embedding", quantized_embedding_run},
                         {"quantized_scan", quantized_scan_run}};

}  // namespace

std::span<const Row> low_bits() { return kRows; }

}  // namespace hg::reference::rows
