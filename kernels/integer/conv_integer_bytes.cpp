// SPDX-License-Identifier: Apache-2.0
#include "kernels/integer/conv_integer_bytes.h"

#include <algorithm>
#include <cstring>

#include "kernels/ceil_div.h"
#include "kernels/gemm/tiles.h"
#include "kernels/integer/conv_integer.h"

namespace hg::kernels {
namespace {

constexpr int64_t kTogether = 8192;   // bytes of a tile's copies and results
constexpr int64_t kMostTogether = 8;  // channels

struct Bytes {
  ConvShape s;
  const IntegerTable* table = nullptr;
  const int32_t* packed = nullptr;  // [o] sums of the weights, then [o][taps] quads
  std::vector<int32_t> offset;      // of each tap, in a copy
  int64_t pitch = 0, lines = 0;     // of the copy of a channel
  bool flat = false;                // all lines of y in one call, with the columns between them
  int64_t together = 1;             // channels of a tile
  int64_t lanes = 1, copy_bytes = 0, y_at = 0, y_bytes = 0, slot_bytes = 0, starts_at = 0;

  int64_t taps() const { return static_cast<int64_t>(offset.size()); }
  int64_t channels() const { return s.n * s.groups; }
  // Results of a line.
  int64_t count() const { return flat ? (s.out[1] - 1) * pitch + s.out[2] : s.out[2]; }
};

int64_t quads_of_row(const ConvShape& s) { return quads_of(s.kernel[2]); }

bool fit_bytes(const Tensor& weight, const ZeroPoints& zeros) {
  const int64_t each = weight.shape[0] == 0 ? 0 : weight.count() / weight.shape[0];
  for (int64_t i = 0; i < weight.count(); ++i) {
    const int value = weight.dtype == DType::i8 ? weight.as<int8_t>()[i] : weight.as<uint8_t>()[i];
    const int number = value - zeros.at(i / each);
    if (number < -128 || number > 127) return false;
  }
  return true;
}

void pack_weight(const ConvShape& s, const Tensor& weight, const ZeroPoints& zeros, int32_t* to) {
  int32_t* const sums = to;
  auto* quads = reinterpret_cast<int8_t*>(to + s.o);
  const int64_t row = 4 * quads_of_row(s);
  const auto* from = weight.as<uint8_t>();
  for (int64_t o = 0; o < s.o; ++o) {
    int32_t sum = 0;
    for (int64_t y = 0; y < s.kernel[1]; ++y, quads += row) {
      std::memset(quads, 0, static_cast<size_t>(row));
      for (int64_t x = 0; x < s.kernel[2]; ++x, ++from) {
        const int value = weight.dtype == DType::i8 ? static_cast<int8_t>(*from) : *from;
        quads[x] = static_cast<int8_t>(value - zeros.at(o));
        sum += quads[x];
      }
    }
    sums[o] = sum;
  }
}

// A channel surrounded by `zero`, with u8 in place of i8 if flip is 128. Lines are followed by
// whole vectors of the padding, which the next line overwrites.
void copy_channel(const Bytes& g, const uint8_t* x, const uint8_t* x_end, uint8_t zero,
                  uint8_t flip, uint8_t* to) {
  const ConvShape& s = g.s;
  const int64_t all = g.lines * g.pitch, begin = s.padding[1] * g.pitch + s.padding[2];
  const int64_t lines = std::clamp<int64_t>(g.lines - s.padding[1], 0, s.in[1]);
  const auto padding = static_cast<uint8_t>(zero ^ flip);
  const auto fill = [&](int64_t from, int64_t end) {
    if (from < end) std::memset(to + from, padding, static_cast<size_t>(end - from));
  };
  const ByteLines copied = {.count = lines,
                            .bytes = s.in[2],
                            .from = x,
                            .from_step = s.in[2],
                            .from_end = x_end,
                            .flip = flip,
                            .fill = padding,
                            .to = to + begin,
                            .to_step = g.pitch,
                            .to_end = to + g.copy_bytes};
  const bool fills_gaps = lines > 0 && copied.excess() >= g.pitch - s.in[2];
  fill(0, fills_gaps ? std::min(all, begin) : all);
  g.table->copy_lines(copied);
  if (fills_gaps) fill(begin + (lines - 1) * g.pitch + s.in[2], all);
}

}  // namespace

bool takes_depthwise_bytes(const PrepareContext& c) {
  const ConvShape s = conv_integer_shape(c);
  const DType to = c.out(0).dtype;
  if (integer_table().depthwise_bytes == nullptr || s.group_c() != 1 || s.groups == 1 ||
      s.in[0] != 1 || s.out[0] != 1 || s.kernel[0] != 1 || s.padding[0] != 0 || s.stride[2] > 2 ||
      s.dilation[2] != 1 || c.out(0).count() == 0 || !c.has(5) ||
      (to != DType::u8 && to != DType::i8))
    return false;
  const bool is_constant = c.is_constant(1) && (!c.has(3) || c.is_constant(3));
  return is_constant && !c.low_memory() &&
         fit_bytes(c.in(1), c.has(3) ? zero_points(c.in(3)) : ZeroPoints());
}

Status prepare_depthwise_bytes(PrepareContext& c) {
  Bytes g;
  g.s = conv_integer_shape(c);
  const ConvShape& s = g.s;
  g.table = &integer_table();
  g.pitch = std::max((s.out[2] - 1) * s.stride[2] + s.kernel[2], s.in[2] + s.padding[2]);
  g.lines = (s.out[1] - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1;
  for (int64_t y = 0; y < s.kernel[1]; ++y)
    for (int64_t q = 0; q < quads_of_row(s); ++q)
      g.offset.push_back(static_cast<int32_t>(y * s.dilation[1] * g.pitch + 4 * q));
  // A vector has 64 results, or 32 with a step of 2.
  const int64_t vector = 64 / s.stride[2];
  g.flat = true;
  const int64_t together = ceil_div(g.count(), vector);
  g.flat = s.stride[1] == s.stride[2] && together < s.out[1] * ceil_div(s.out[2], vector);
  g.packed = static_cast<const int32_t*>(c.pack(
      1, str_cat("conv_integer.bytes:", key_of(c.has(3) ? zero_points(c.in(3)) : ZeroPoints())),
      s.o * (1 + g.taps()) * 4,
      [s, weight = c.in(1), zeros = c.has(3) ? zero_points(c.in(3)) : ZeroPoints()](void* to) {
        pack_weight(s, weight, zeros, static_cast<int32_t*>(to));
      }));
  if (g.packed == nullptr) return c.fail("has no memory for its weights");
  // Vectors cannot read at once what shorter stores have just written: copies and results of other
  // channels lie between.
  g.copy_bytes = slot_step(g.lines * g.pitch + kDepthwiseSlack);
  g.y_bytes = g.flat ? slot_step(g.count()) : 0;
  g.together = std::clamp<int64_t>(kTogether / (g.copy_bytes + g.y_bytes), 1, kMostTogether);
  g.y_at = g.together * g.copy_bytes;
  g.slot_bytes = g.y_at + g.together * g.y_bytes;
  g.lanes = tile_lanes(c, ceil_div(g.channels(), g.together));
  g.starts_at = slot_step(tile_workspace(g.lanes, g.slot_bytes));
  c.set_workspace(g.starts_at + slot_step(s.o * 4));
  c.make_state(std::move(g));
  return {};
}

void run_depthwise_bytes(const RunContext& c) noexcept {
  const Bytes& g = c.state<Bytes>();
  const ConvShape& s = g.s;
  if (c.out(0).count() == 0) return;
  auto* const starts = reinterpret_cast<int32_t*>(c.workspace<char>() + g.starts_at);
  const bool is_signed = c.in(0).dtype == DType::i8;
  const uint8_t flip = is_signed ? 128 : 0;
  conv_integer_starts(c, s.o, g.packed, flip, starts);
  const auto zero = static_cast<uint8_t>(c.has(2) ? zero_points(c.in(2)).at(0) : 0);
  const auto* const x = c.in(0).as<uint8_t>();
  auto* const y = c.out(0).as<uint8_t>();
  const IntegerFinish finish = integer_finish(c);
  const bool by_channel = c.in(5).rank() == 1;
  const int64_t each = s.group_o(), line = s.out[2];
  const int64_t tiles = ceil_div(g.channels(), g.together);
  for_tiles(c, tiles, g.lanes, g.slot_bytes, [&](int64_t tile, float* slot) {
    auto* const copies = reinterpret_cast<uint8_t*>(slot);
    const int64_t first = tile * g.together;
    const int64_t count = std::min(g.together, g.channels() - first);
    for (int64_t i = 0; i < count; ++i)
      copy_channel(g, x + (first + i) * s.in_size(), x + g.channels() * s.in_size(), zero, flip,
                   copies + i * g.copy_bytes);
    for (int64_t k = 0; k < each; ++k) {
      const auto result_of = [&](int64_t i) { return y + ((first + i) * each + k) * s.out_size(); };
      for (int64_t i = 0; i < count; ++i) {
        const int64_t o = (first + i) % s.groups * each + k;
        IntegerFinish f = finish;
        f.add = starts[o];
        if (by_channel) f.scale += o;
        g.table->depthwise_bytes({.taps = static_cast<int>(g.taps()),
                                  .offset = g.offset.data(),
                                  .weights = g.packed + s.o + o * g.taps(),
                                  .x = copies + i * g.copy_bytes,
                                  .step = s.stride[2],
                                  .lines = g.flat ? 1 : s.out[1],
                                  .x_line = s.stride[1] * g.pitch,
                                  .count = g.count(),
                                  .y = g.flat ? copies + g.y_at + i * g.y_bytes : result_of(i),
                                  .y_line = line},
                                 f);
      }
      for (int64_t i = 0; i < count && g.flat; ++i)
        g.table->copy_lines({.count = s.out[1],
                             .bytes = line,
                             .from = copies + g.y_at + i * g.y_bytes,
                             .from_step = g.pitch,
                             .from_end = copies + g.slot_bytes,
                             .to = result_of(i),
                             .to_step = line,
                             .to_end = each == 1 ? y + (first + count) * s.out_size()
                                                 : result_of(i) + s.out_size()});
    }
  });
}

}  // namespace hg::kernels
