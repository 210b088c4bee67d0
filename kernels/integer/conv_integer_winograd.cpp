// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions of 8-bit integers with stride 1, to bytes, by Winograd's algorithm: F(2x2, 3x3)
// needs 2.25 times fewer products than the direct sum, F(4x4, 3x3) 4 times fewer. Sums are exact
// (integer_winograd.h), so results have the same bits as those of the other kernels. Weights for
// which they could exceed 32 bits are left to those.
//
// A task handles some rows of tiles of one image and some output channels. It transforms its tiles
// of all input channels into panels, then multiplies and transforms back some output channels at a
// time.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/ceil_div.h"
#include "kernels/conv/winograd_tasks.h"
#include "kernels/gemm/tiles.h"
#include "kernels/integer/conv_integer.h"
#include "kernels/integer/integer_winograd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kLeastChannels = 16;
constexpr int64_t kLeastPixels = 36;  // of y
constexpr int64_t kBlock = 12;        // output channels of a part, at most
constexpr int64_t kPanelBytes = 1 << 18;

struct Winograd {
  ConvShape s;
  int m = 2;  // of F(m x m, 3x3)
  const IntegerWinogradTable* table = nullptr;
  const char* packed = nullptr;  // sums of [o] weights, and from data_at on [parts][elements]
                                 // [blocks of rows][pairs][rows][2] of i16
  int64_t tiles_x = 0, tiles_y = 0;
  std::vector<int64_t> parts;          // first output channels, and the end
  int64_t row_tasks = 1, o_tasks = 1;  // groups of an image's rows of tiles, and of the parts
  int64_t lanes = 1, slot_bytes = 0, starts_at = 0;
  // Of a slot: steps in elements, and positions in bytes.
  int64_t v_step = 0, product_step = 0, plane_step = 0, line_step = 0, row_bytes = 0;
  int64_t products_at = 0, planes_at = 0, rows_at = 0, lines_at = 0;

  int64_t side() const { return m + 2; }
  int64_t elements() const { return side() * side(); }
  int64_t pairs() const { return pairs_of(s.c); }
  int64_t data_at() const { return slot_step(s.o * 4); }
  int64_t packed_bytes() const { return data_at() + elements() * s.o * pairs() * 4; }
  int64_t task_rows() const { return ceil_div(tiles_y, row_tasks); }  // of tiles, at most
  int64_t first_row(int64_t task) const { return part_begin(tiles_y, row_tasks, task); }
  int64_t part_count() const { return static_cast<int64_t>(parts.size()) - 1; }
  int64_t first_part(int64_t task) const { return part_begin(part_count(), o_tasks, task); }
  int64_t o_at(int64_t part) const { return parts[static_cast<size_t>(part)]; }
};

// The time of F(m x m, 3x3) for `o` output channels and some vectors of tiles, in cycles: products,
// or reading the weights if tiles are few; and the transforms. Measured with AVX2.
double cost(const ConvShape& s, int m, int64_t vectors_of_tiles, int64_t o) {
  const double elements = (m + 2) * (m + 2), channels = static_cast<double>(s.c * o);
  const auto vectors = static_cast<double>(vectors_of_tiles);
  const double products = 0.32 * vectors + (vectors_of_tiles % 2 == 1 ? 0.1 : 0);
  const double reading = elements * channels * 2 / 6;
  return std::max(elements * channels * products, reading) +
         3 * elements * vectors * static_cast<double>(s.c + o);
}
double cost(const ConvShape& s, int m) {
  const int64_t tiles = ceil_div(s.out[1], int64_t{m}) * ceil_div(s.out[2], int64_t{m});
  return cost(s, m, s.n * ceil_div(tiles, int64_t{8}), s.o);
}
// The same of quads of bytes.
double cost_of_quads(const ConvShape& s) {
  const double weights = 9.0 * static_cast<double>(s.c * s.o);
  return std::max(weights * static_cast<double>(ceil_div(s.n * s.out_size(), int64_t{8})) * 0.3,
                  weights / 6);
}

// The largest sum of magnitudes of an output channel's weights.
template <class T>
int64_t largest_sum(const ConvShape& s, const T* weight, const ZeroPoints& zeros) {
  int64_t largest = 0;
  for (int64_t o = 0; o < s.o; ++o) {
    const int zero = zeros.at(o);
    int64_t sum = 0;
    for (int64_t k = 0; k < 9 * s.c; ++k) sum += std::abs(*weight++ - zero);
    largest = std::max(largest, sum);
  }
  return largest;
}

// Whether sums of bytes times these weights, times the power of 2 in the multiple of y that the
// output transform yields, fit 32 bits.
bool fits(int m, int64_t sum_of_weights) {
  return sum_of_weights * 128 < (int64_t{1} << 31) / (m == 2 ? 4 : 64);
}

ZeroPoints weight_zeros(const PrepareContext& c) {
  return c.has(3) ? zero_points(c.in(3)) : ZeroPoints();
}

// m, or 0 if another kernel takes less time.
int choose(const PrepareContext& c) {
  const DType to = c.out(0).dtype;
  if (integer_winograd_table(2) == nullptr || !c.has(5) || (to != DType::u8 && to != DType::i8) ||
      !c.is_constant(1) || (c.has(3) && !c.is_constant(3)) || c.low_memory())
    return 0;
  const ConvShape s = conv_integer_shape(c);
  if (s.groups != 1 || s.c < kLeastChannels || s.o < kLeastChannels || s.n == 0 ||
      s.out_size() < kLeastPixels || s.kernel != ConvShape::Spatial{1, 3, 3} || s.in[0] != 1 ||
      s.out[0] != 1 || s.padding[0] != 0 || s.stride != ConvShape::Spatial{1, 1, 1} ||
      s.dilation != ConvShape::Spatial{1, 1, 1})
    return 0;
  const Tensor& weight = c.in(1);
  const int64_t largest = weight.dtype == DType::i8
                              ? largest_sum(s, weight.as<int8_t>(), weight_zeros(c))
                              : largest_sum(s, weight.as<uint8_t>(), weight_zeros(c));
  const double two = cost(s, 2), four = cost(s, 4);
  const int m = fits(4, largest) && four < two ? 4 : 2;
  return fits(m, largest) && (m == 4 ? four : two) < cost_of_quads(s) ? m : 0;
}

bool accepts(const PrepareContext& c) { return choose(c) != 0; }

// One dimension of u = G g G^T times scales that make it integer: 3 elements at `from` to m + 2 at
// `to`, for kLine kernels at once.
constexpr int kLine = 16;
void transform_line(int m, const int* from, int64_t from_step, int* to, int64_t to_step) {
  const int *g0 = from, *g1 = from + from_step, *g2 = from + 2 * from_step;
  const int ends = m == 2 ? 2 : 3;
  for (int t = 0; t < kLine; ++t) to[t] = ends * g0[t];
  for (int point = 1; point <= m / 2; ++point) {
    int *plus = to + (2 * point - 1) * to_step, *minus = plus + to_step;
    for (int t = 0; t < kLine; ++t) {
      const int even = g0[t] + point * point * g2[t], odd = point * g1[t];
      plus[t] = even + odd;
      minus[t] = even - odd;
    }
  }
  for (int t = 0; t < kLine; ++t) to[(m + 1) * to_step + t] = ends * g2[t];
}

// Output channels [first, first + rows) as the block of a part, whose elements are element_step
// apart.
template <class T>
void pack_block(const Winograd& w, const T* weight, const ZeroPoints& zeros, int64_t first,
                int rows, int16_t* to, int64_t element_step) {
  const int64_t side = w.side(), c = w.s.c;
  int g[9 * kLine] = {}, half[18 * kLine], u[36 * kLine];
  int filled = 0;
  const auto flush = [&] {
    for (int j = 0; j < 3; ++j)  // columns, then rows
      transform_line(w.m, g + j * kLine, 3 * kLine, half + j * kLine, 3 * kLine);
    for (int64_t i = 0; i < side; ++i)
      transform_line(w.m, half + 3 * i * kLine, kLine, u + i * side * kLine, kLine);
    for (int64_t e = 0; e < w.elements(); ++e)
      for (int t = 0; t < filled; ++t)
        to[e * element_step + t] = static_cast<int16_t>(u[e * kLine + t]);
    to += filled;
    filled = 0;
  };
  for (int64_t i = 0; i < 2 * w.pairs(); i += 2)
    for (int64_t o = first; o < first + rows; ++o)
      for (int64_t k = i; k < i + 2; ++k) {
        const T* const kernel = weight + (o * c + k) * 9;
        for (int e = 0; e < 9; ++e) g[e * kLine + filled] = k < c ? kernel[e] - zeros.at(o) : 0;
        if (++filled == kLine) flush();
      }
  flush();
}

template <class T>
void pack_weight(const Winograd& w, const T* weight, const ZeroPoints& zeros, char* to) {
  auto* const sums = reinterpret_cast<int32_t*>(to);
  for (int64_t o = 0; o < w.s.o; ++o) {
    sums[o] = 0;
    for (int64_t k = 0; k < 9 * w.s.c; ++k) sums[o] += weight[o * 9 * w.s.c + k] - zeros.at(o);
  }
  const int64_t depth = 2 * w.pairs();
  for (int64_t part = 0; part < w.part_count(); ++part) {
    const int64_t first = w.o_at(part), rows = w.o_at(part + 1) - first;
    auto* const part_to =
        reinterpret_cast<int16_t*>(to + w.data_at()) + first * w.elements() * depth;
    int count;
    for (int64_t i = 0; i < rows; i += count) {
      count = block_rows(rows - i, w.table->mr);
      pack_block(w, weight, zeros, first + i, count, part_to + i * depth, rows * depth);
    }
  }
}

void choose_tasks(Winograd& w, int threads) {
  const int64_t nr = w.table->tiles, lanes = nr / 2;
  const int64_t most = std::clamp<int64_t>(kPanelBytes / (w.pairs() * 4 * w.elements()), nr, 256);
  const WinogradTasks tasks = choose_winograd_tasks(
      {w.s.n, w.tiles_x, w.tiles_y}, most, w.part_count(), threads,
      [&](int64_t tiles, int64_t o, int64_t groups) {
        const auto first = [&](int64_t group) {
          return w.o_at(part_begin(w.part_count(), groups, group));
        };
        return cost(w.s, w.m, ceil_div(tiles, lanes), first(o + 1) - first(o));
      });
  w.row_tasks = tasks.rows;
  w.o_tasks = tasks.o;
}

[[gnu::cold]] Status prepare(PrepareContext& c) {
  Winograd w;
  w.s = conv_integer_shape(c);
  const ConvShape& s = w.s;
  w.m = choose(c);
  w.table = integer_winograd_table(w.m);
  w.tiles_y = ceil_div(s.out[1], int64_t{w.m});
  w.tiles_x = ceil_div(s.out[2], int64_t{w.m});
  w.parts = row_parts(s.o, w.table->mr, ceil_div(s.o, kBlock));
  choose_tasks(w, c.threads());
  const ZeroPoints zeros = weight_zeros(c);
  w.packed = static_cast<const char*>(
      c.pack(1, str_cat("conv_integer.winograd", w.m, "/", w.table->mr, ":", key_of(zeros)),
             w.packed_bytes(), [w, weight = c.in(1), zeros](void* to) {
               if (weight.dtype == DType::i8)
                 pack_weight(w, weight.as<int8_t>(), zeros, static_cast<char*>(to));
               else
                 pack_weight(w, weight.as<uint8_t>(), zeros, static_cast<char*>(to));
             }));
  if (w.packed == nullptr)
    return out_of_memory(c.label(), ": no memory for ", w.packed_bytes(),
                         " bytes of packed weights");
  const int64_t tiles = w.task_rows() * w.tiles_x, nr = w.table->tiles;
  const int64_t whole = ceil_div(tiles, nr) * nr;
  // Odd numbers of cache lines, so that elements do not compete for the same cache sets.
  const auto step = [](int64_t count) { return (ceil_div(count, int64_t{16}) | 1) * 16; };
  w.v_step = step(whole * w.pairs());
  w.product_step = step(std::min(s.o, kBlock) * whole);
  w.plane_step = step((w.task_rows() + 1) * w.tiles_x + kIntegerWinogradSlack);
  w.line_step = step(w.m * tiles + kIntegerWinogradSlack);
  w.row_bytes = slot_step(w.m * w.tiles_x + 2 + w.m * kIntegerWinogradSlack);
  w.products_at = w.elements() * w.v_step * 4;
  w.planes_at = w.products_at + w.elements() * w.product_step * 4;
  w.rows_at = w.planes_at + w.m * w.side() * w.plane_step * 4;
  w.lines_at = w.rows_at + 2 * w.row_bytes;
  w.slot_bytes = w.lines_at + w.m * w.line_step;
  w.lanes = tile_lanes(c, s.n * w.row_tasks * w.o_tasks);
  w.starts_at = slot_step(tile_workspace(w.lanes, w.slot_bytes));
  c.set_workspace(w.starts_at + slot_step(s.o * 4));
  c.make_state(std::move(w));
  return {};
}

// Row `row` of a channel with its padding, or nothing but padding.
void copy_row(const Winograd& w, const uint8_t* channel, int64_t row, uint8_t zero, uint8_t* to) {
  const ConvShape& s = w.s;
  const bool is_inside = row >= 0 && row < s.in[1];
  const int64_t left = std::min(s.padding[2], w.row_bytes);
  const int64_t count = is_inside ? std::min(s.in[2], w.row_bytes - left) : 0;
  std::memset(to, zero, static_cast<size_t>(left));
  if (count > 0) copy_line(to + left, channel + row * s.in[2], count);
  std::memset(to + left + count, zero, static_cast<size_t>(w.row_bytes - left - count));
}

void run(const RunContext& c) noexcept {
  const Winograd& w = c.state<Winograd>();
  const ConvShape& s = w.s;
  auto* const starts = reinterpret_cast<int32_t*>(c.workspace<char>() + w.starts_at);
  const bool is_signed = c.in(0).dtype == DType::i8;
  const uint8_t flip = is_signed ? 0 : 128;
  conv_integer_starts(c, s.o, reinterpret_cast<const int32_t*>(w.packed), is_signed ? 0 : -128,
                      starts);
  const auto zero = static_cast<uint8_t>(c.has(2) ? zero_points(c.in(2)).at(0) : 0);
  const auto* const weight = reinterpret_cast<const int32_t*>(w.packed + w.data_at());
  const IntegerFinish finish = integer_finish(c);
  const bool by_channel = c.in(5).rank() == 1;
  const int64_t pairs = w.pairs(), nr = w.table->tiles, images = s.n * w.row_tasks;
  for_tiles(c, images * w.o_tasks, w.lanes, w.slot_bytes, [&](int64_t task, float* slot_floats) {
    char* const slot = reinterpret_cast<char*>(slot_floats);
    auto* const v = reinterpret_cast<int32_t*>(slot);
    auto* const products = reinterpret_cast<int32_t*>(slot + w.products_at);
    auto* const planes = reinterpret_cast<int32_t*>(slot + w.planes_at);
    auto* const row_of = reinterpret_cast<uint8_t*>(slot + w.rows_at);
    auto* const lines = reinterpret_cast<uint8_t*>(slot + w.lines_at);
    // Neighboring tasks have the same output channels, whose weights are then read once.
    const int64_t o_task = task / images, image = task % images / w.row_tasks,
                  row_task = task % w.row_tasks;
    const int64_t first = w.first_row(row_task), rows = w.first_row(row_task + 1) - first;
    const int64_t tiles = rows * w.tiles_x, panels = ceil_div(tiles, nr);
    const auto* const x = c.in(0).as<uint8_t>() + image * s.c * s.in_size();
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const uint8_t* const even = x + 2 * pair * s.in_size();
      const uint8_t* const odd = 2 * pair + 1 < s.c ? even + s.in_size() : even;
      for (int64_t line = 0; line < w.m * rows + 2; ++line) {
        const int64_t row = w.m * first + line - s.padding[1];
        copy_row(w, even, row, zero, row_of);
        copy_row(w, odd, row, zero, row_of + w.row_bytes);
        w.table->split(row_of, row_of + w.row_bytes, flip, w.tiles_x,
                       planes + line % w.m * w.side() * w.plane_step + line / w.m * w.tiles_x,
                       w.plane_step);
      }
      w.table->input(tiles, w.tiles_x, planes, w.plane_step, v + pair * nr, w.v_step, pairs * nr);
    }
    for (int64_t part = w.first_part(o_task); part < w.first_part(o_task + 1); ++part) {
      const int64_t first_o = w.o_at(part), outs = w.o_at(part + 1) - first_o;
      for (int64_t e = 0; e < w.elements(); ++e) {
        const int32_t* const u = weight + (first_o * w.elements() + e * outs) * pairs;
        int count;
        for (int64_t i = 0; i < outs; i += count) {
          count = block_rows(outs - i, w.table->mr);
          w.table->products(count, tiles, pairs, u + i * pairs, v + e * w.v_step,
                            products + e * w.product_step + i * panels * nr, panels * nr);
        }
      }
      for (int64_t i = 0; i < outs; ++i) {
        const int64_t o = first_o + i;
        IntegerFinish f = finish;
        f.add = starts[o];
        if (by_channel) f.scale += o;
        w.table->output(tiles, products + i * panels * nr, w.product_step, f, lines, w.line_step);
        uint8_t* const y = c.out(0).as<uint8_t>() + (image * s.o + o) * s.out_size();
        for (int64_t row = w.m * first; row < std::min(w.m * (first + rows), s.out[1]); ++row)
          copy_line(y + row * s.out[2],
                    lines + row % w.m * w.line_step + (row / w.m - first) * w.m * w.tiles_x,
                    s.out[2]);
      }
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv_integer", .name = "winograd", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_integer_winograd() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
