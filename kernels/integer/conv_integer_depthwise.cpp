// SPDX-License-Identifier: Apache-2.0
// Convolutions of 8-bit integers with one input channel per group, in one or two dims. A few rows
// of a channel are widened to i16 with zero padding. Pairs of neighbors in a row are multiplied
// with pairs of weights.
#include <algorithm>
#include <cstring>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/gemm/tiles.h"
#include "kernels/integer/conv_integer.h"
#include "kernels/integer/conv_integer_bytes.h"
#include "kernels/saves_code.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct Depthwise {
  ConvShape s;
  const IntegerTable* table = nullptr;
  const int16_t* packed = nullptr;  // [o] pairs of the taps
  std::vector<int64_t> offset;      // position in the copy that a pair of weights reads first
  int64_t pitch = 0;                // of the copy
  int64_t rows = 1, bands = 1;      // of y in a band; bands of an image
  int64_t lanes = 1, slot_bytes = 0, sums_at = 0, packed_at = 0;

  int64_t pairs() const { return static_cast<int64_t>(offset.size()); }
  int64_t in_rows(int64_t of_y) const {
    return (of_y - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1;
  }
  // Whether all rows of y are one call, with the columns between them.
  bool flat() const {
    const auto vectors = [&](int64_t columns) { return ceil_div(columns, int64_t{table->nr}); };
    return s.stride[1] == s.stride[2] &&
           (s.stride[1] == 1 || vectors(flat_columns(rows)) <= rows * vectors(s.out[2]));
  }
  int64_t flat_columns(int64_t of_y) const { return (of_y - 1) * pitch + s.out[2]; }
};

bool accepts(const PrepareContext& c) {
  const ConvShape s = conv_integer_shape(c);
  return s.group_c() == 1 && s.groups > 1 && s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 &&
         s.padding[0] == 0 && s.stride[2] <= 2 && c.out(0).count() > 0;
}

// Neighbors in a row of weights form a pair if the values they multiply are neighbors; others are
// paired with 0.
bool has_neighbour(const ConvShape& s, int64_t x) {
  return s.dilation[2] == 1 && x + 1 < s.kernel[2];
}

void pack_weight(const ConvShape& s, const Tensor& weight, const ZeroPoints& zeros, int16_t* to) {
  const bool is_signed = weight.dtype == DType::i8;
  const auto number = [&](int64_t o, int64_t i) {
    const int64_t at = o * s.kernel_size() + i;
    const int value = is_signed ? weight.as<int8_t>()[at] : weight.as<uint8_t>()[at];
    return static_cast<int16_t>(value - zeros.at(o));
  };
  for (int64_t o = 0; o < s.o; ++o)
    for (int64_t y = 0; y < s.kernel[1]; ++y)
      for (int64_t x = 0; x < s.kernel[2]; ++x) {
        *to++ = number(o, y * s.kernel[2] + x);
        *to++ = has_neighbour(s, x) ? number(o, y * s.kernel[2] + ++x) : int16_t{0};
      }
}

[[gnu::cold]] Status prepare(PrepareContext& c) {
  Depthwise g;
  g.s = conv_integer_shape(c);
  const ConvShape& s = g.s;
  g.table = &integer_table();
  g.pitch = std::max(s.in[2] + s.padding[2],
                     (s.out[2] - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1);
  for (int64_t y = 0; y < s.kernel[1]; ++y)
    for (int64_t x = 0; x < s.kernel[2]; ++x) {
      g.offset.push_back(y * s.dilation[1] * g.pitch + x * s.dilation[2]);
      x += has_neighbour(s, x);
    }
  // Rows and their sums fill at most half of a second-level cache.
  const int64_t row_bytes = g.pitch * (2 * s.stride[1] + 4);
  g.rows = std::clamp<int64_t>(kPackedRowsFloats * 4 / row_bytes, 1, s.out[1]);
  if (s.n * s.groups < 2 * c.threads())
    g.rows = std::min(g.rows, ceil_div(s.out[1] * s.n * s.groups, 2 * c.threads()));
  g.bands = ceil_div(s.out[1], g.rows);
  const ZeroPoints zeros = c.has(3) ? zero_points(c.in(3)) : ZeroPoints();
  const int64_t packed_bytes = s.o * g.pairs() * 4;
  if (c.is_constant(1) && (!c.has(3) || c.is_constant(3)))
    g.packed = static_cast<const int16_t*>(
        c.pack(1, str_cat("conv_integer.depthwise", s.dilation[2], ":", key_of(zeros)),
               packed_bytes, [s, weight = c.in(1), zeros](void* to) {
                 pack_weight(s, weight, zeros, static_cast<int16_t*>(to));
               }));
  g.sums_at = slot_step((g.in_rows(g.rows) * g.pitch + kDepthwiseSlack) * 2);
  g.slot_bytes = g.sums_at + (g.rows * g.pitch + kDepthwiseSlack) * 4;
  g.lanes = tile_lanes(c, s.n * s.groups * g.bands);
  g.packed_at = slot_step(tile_workspace(g.lanes, g.slot_bytes));
  c.set_workspace(g.packed_at + (g.packed == nullptr ? packed_bytes : 0));
  c.make_state(std::move(g));
  return {};
}

// Rows of a channel from `first` on, including the padding above, surrounded by zeros. x has
// `readable` bytes.
void widen_rows(const Depthwise& g, const uint8_t* x, int64_t readable, bool is_signed,
                int16_t zero, int64_t first, int64_t rows, int16_t* to) {
  const ConvShape& s = g.s;
  std::memset(to, 0, static_cast<size_t>((rows * g.pitch + kDepthwiseSlack) * 2));
  const int64_t above = first - s.padding[1], begin = std::max<int64_t>(0, above),
                end = std::min(s.in[1], above + rows);
  if (begin < end)
    g.table->widen(end - begin, s.in[2], readable - begin * s.in[2], x + begin * s.in[2], is_signed,
                   zero, to + (begin - above) * g.pitch + s.padding[2], g.pitch);
}

// Lines of bytes, `pitch` apart, one after the other.
void copy_lines(int64_t lines, int64_t width, const uint8_t* from, int64_t pitch, uint8_t* to) {
  constexpr int64_t kShort = 16;
  const uint8_t* const end = to + lines * width;
  for (int64_t i = 0; i < lines; ++i, from += pitch, to += width)
    if (width <= kShort && end - to >= kShort)  // the next line overwrites the excess
      std::memcpy(to, from, kShort);
    else
      copy_line(to, from, width);
}

void run(const RunContext& c) noexcept {
  const Depthwise& g = c.state<Depthwise>();
  const ConvShape& s = g.s;
  if (c.out(0).count() == 0) return;
  const int16_t* packed = g.packed;
  if (packed == nullptr) {
    auto* const to = reinterpret_cast<int16_t*>(c.workspace<char>() + g.packed_at);
    pack_weight(s, c.in(1), c.has(3) ? zero_points(c.in(3)) : ZeroPoints(), to);
    packed = to;
  }
  const bool is_signed = c.in(0).dtype == DType::i8;
  const auto zero = static_cast<int16_t>(c.has(2) ? zero_points(c.in(2)).at(0) : 0);
  const auto* const x = c.in(0).as<uint8_t>();
  const int32_t* const bias = c.has(4) ? c.in(4).as<int32_t>() : nullptr;
  const IntegerFinish finish = integer_finish(c);
  const bool by_channel = c.has(5) && c.in(5).rank() == 1;
  char* const y = c.out(0).as<char>();
  const int64_t y_size = size_of(c.out(0).dtype), each = s.group_o();
  const bool flat = g.flat();
  const bool rounded = !kSavesCode && y_size == 1 && g.table->depthwise_rounded != nullptr;
  for_tiles(c, s.n * s.groups * g.bands, g.lanes, g.slot_bytes, [&](int64_t task, float* slot) {
    auto* const copy = reinterpret_cast<int16_t*>(slot);
    auto* const sums = reinterpret_cast<int32_t*>(reinterpret_cast<char*>(slot) + g.sums_at);
    auto* const bytes = reinterpret_cast<uint8_t*>(sums);
    const int64_t band = task % g.bands, channel = task / g.bands;
    const int64_t first = band * g.rows, rows = std::min(g.rows, s.out[1] - first);
    widen_rows(g, x + channel * s.in_size(), (s.n * s.groups - channel) * s.in_size(), is_signed,
               zero, first * s.stride[1], g.in_rows(rows), copy);
    const int64_t image = channel / s.groups, group = channel % s.groups;
    for (int64_t o = group * each; o < (group + 1) * each; ++o) {
      const auto* const weights = reinterpret_cast<const int32_t*>(packed + o * g.pairs() * 2);
      IntegerFinish f = finish;
      if (bias) f.add = bias[o];
      if (by_channel) f.scale += o;
      char* const to = y + ((image * s.o + o) * s.out[1] + first) * s.out[2] * y_size;
      const auto row_of = [&](int64_t i, int64_t count) {
        if (rounded)
          return g.table->depthwise_rounded(static_cast<int>(g.pairs()), g.offset.data(), weights,
                                            copy + i * s.stride[1] * g.pitch, s.stride[2], count, f,
                                            bytes + i * g.pitch);
        g.table->depthwise(static_cast<int>(g.pairs()), g.offset.data(), weights,
                           copy + i * s.stride[1] * g.pitch, s.stride[2], count,
                           sums + i * g.pitch);
      };
      if (flat)
        row_of(0, g.flat_columns(rows));
      else
        for (int64_t i = 0; i < rows; ++i) row_of(i, s.out[2]);
      if (!rounded) {
        g.table->finish(rows, s.out[2], sums, g.pitch, f, to, s.out[2]);
        continue;
      }
      copy_lines(rows, s.out[2], bytes, g.pitch, reinterpret_cast<uint8_t*>(to));
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv_integer",
     .name = "depthwise_bytes",
     .accepts = takes_depthwise_bytes,
     .prepare = prepare_depthwise_bytes,
     .run = run_depthwise_bytes},
    {.op = "conv_integer", .name = "depthwise", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_integer_depthwise() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
