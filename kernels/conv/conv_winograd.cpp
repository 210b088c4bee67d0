// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions with stride 1 in f32 by Winograd's algorithm. F(2x2, 3x3) needs 2.25 times fewer
// multiplications than the direct sum, F(4x4, 3x3) 4 times fewer. Their transformed weights are
// 16/9 and 4 times as large. F(4x4, 3x3) rounds more, and is used only where it is clearly cheaper.
//
// In 3-D convolutions, each plane of y is an image whose input channels are the planes of x that it
// reads. In dilated ones, rows and columns that are a dilation apart form one image.
//
// A task handles some rows of tiles of one image and some output channels. It transforms its tiles
// of all input channels into panels, then multiplies and transforms back kBlock output channels at
// a time. Results that the transforms would spoil (conv_winograd_alone.h) are summed directly
// afterward.
#include "kernels/conv/conv_winograd.h"

#include <algorithm>
#include <span>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/conv/conv_few.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/conv/conv_winograd_alone.h"
#include "kernels/conv/winograd_tasks.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kBlock = 24;  // output channels, at most
constexpr double kLittleMemory = 2 << 20;

struct Winograd {
  ConvShape s;
  int m = 2;  // of F(m x m, 3x3)
  const GemmTable* gemm = nullptr;
  const WinogradTable* table = nullptr;
  const float* packed = nullptr;  // [blocks][elements][pieces of c][rows of gemm][piece][rows]
  int64_t images = 0;             // all planes of y of each output channel
  int64_t out_y = 0, out_x = 0;   // of one
  int64_t c = 0;                  // planes of x that a plane of y meets
  int64_t tiles_x = 0, tiles_y = 0;
  int64_t blocks = 0;                  // planes of x that a plane of y reads
  int64_t row_tasks = 1, o_tasks = 1;  // parts of an image's rows of tiles, and of the blocks
  int64_t lanes = 1, slot_bytes = 0;
  // Parts of a slot, in floats.
  int64_t panel_floats = 0, product_step = 0, in_step = 0, out_step = 0, row_width = 0;
  int64_t dense_at = 0;  // where rows of columns that are apart are made contiguous
  int64_t largest_at = 0, largest_step = 0;  // the largest elements of all channels, and a row
  int64_t alone_at = 0;

  int64_t side() const { return m + 2; }
  int64_t elements() const { return side() * side(); }
  int64_t task_rows() const { return ceil_div(tiles_y, row_tasks); }  // of tiles, at most
  int64_t tiles() const { return task_rows() * tiles_x; }
  int64_t first_row(int64_t part) const { return part_begin(tiles_y, row_tasks, part); }
  // The first output channel of a block, and the first block of a part.
  int64_t first_o(int64_t block) const {
    return std::min(s.o, part_begin(ceil_div(s.o, gemm->mr), blocks, block) * gemm->mr);
  }
  int64_t first_block(int64_t part) const { return part_begin(blocks, o_tasks, part); }
  // For output channel first_o(block) + row and channel i: the first transformed element, and the
  // distance of elements.
  const float* packed_at(int64_t block, int64_t row, int64_t i) const {
    const int64_t rows = first_o(block + 1) - first_o(block);
    const int64_t k0 = i / kDepthPiece * kDepthPiece, piece = std::min(kDepthPiece, c - k0);
    int64_t first = 0;
    int count = block_rows(rows, gemm->mr);
    for (; first + count <= row; count = block_rows(rows - first, gemm->mr)) first += count;
    return packed + first_o(block) * c * elements() + k0 * rows + first * piece + (i - k0) * count +
           row - first;
  }
  int64_t packed_step(int64_t block) const { return (first_o(block + 1) - first_o(block)) * c; }
};

// The cost of F(m x m, 3x3) on one core for `o` output channels, in vector operations: the
// products, in pairs of vectors of tiles, or reading the weights if tiles are few; and the
// transforms.
double cost(const Winograd& w, int m, int64_t vectors_of_tiles, int64_t o) {
  const double elements = (m + 2) * (m + 2), channels = static_cast<double>(w.c * o);
  const auto vectors = static_cast<double>(vectors_of_tiles);
  // A single vector does not fill the pipelines; meanwhile a vector operation reads 8 bytes.
  const double products =
      elements * channels * (vectors_of_tiles % 2 == 1 ? vectors + 0.4 : vectors);
  const double weights = elements * channels * 4 / 8;
  return std::max(products, weights) + 3 * elements * vectors * static_cast<double>(w.c + o);
}

// The images of a convolution, and their inputs.
Winograd winograd_of(const PrepareContext& c) {
  Winograd w;
  w.s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  w.gemm = &gemm_table();
  w.images = w.s.n * w.s.out[0] * w.s.dilation[1] * w.s.dilation[2];
  w.out_y = ceil_div(w.s.out[1], w.s.dilation[1]);
  w.out_x = ceil_div(w.s.out[2], w.s.dilation[2]);
  w.c = w.s.c * w.s.kernel[0];
  return w;
}

bool accepts(const PrepareContext& c) {
  if (c.out(0).dtype != f32 || c.attrs().flag("transposed") || c.attrs().flag("exact") ||
      !c.is_constant(1) || c.low_memory())
    return false;
  const Winograd w = winograd_of(c);
  const ConvShape& s = w.s;
  const auto suits = [&](size_t d) { return s.kernel[d] == 3 && s.stride[d] == 1; };
  if (!suits(1) || !suits(2) || s.groups != 1 || w.c < 16 || s.o < 16 || w.images == 0 ||
      w.out_y * w.out_x < 36)
    return false;
  const int64_t lanes = w.gemm->nr / 2;
  if (accepts_few_pixels(c)) {  // whose weights are smaller
    const int64_t tiles = ceil_div(w.out_y, 2) * ceil_div(w.out_x, 2);
    const auto weight_bytes = static_cast<double>(16 * w.c * s.o * 4);
    const double here =
        cost(w, 2, w.images * ceil_div(tiles, lanes), s.o) + cost_of_reading(weight_bytes);
    if (cost_of_few_pixels(c, lanes) < here) return false;
  }
  if (s.dilation[1] * s.dilation[2] == 1) return true;
  if (s.dilation[2] > 1 && c.has(3)) return false;  // the columns of a residual would be apart
  // Each small image reads all weights and does not fill vectors.
  const double direct = 9.0 * static_cast<double>(w.c * s.o * ceil_div(w.out_y * w.out_x, lanes));
  return cost(w, 2, ceil_div(ceil_div(w.out_y, 2) * ceil_div(w.out_x, 2), lanes), s.o) < direct;
}

void choose_tasks(Winograd& w, int threads) {
  const int64_t lanes = w.gemm->nr / 2;
  const int64_t most = std::clamp<int64_t>(163840 / (w.c * w.elements()), 16, 256);
  const WinogradTasks tasks =
      choose_winograd_tasks({w.images, w.tiles_x, w.tiles_y}, most, w.blocks, threads,
                            [&](int64_t tiles, int64_t o, int64_t groups) {
                              const auto first = [&](int64_t group) {
                                return w.first_o(part_begin(w.blocks, groups, group));
                              };
                              return cost(w, w.m, ceil_div(tiles, lanes), first(o + 1) - first(o));
                            });
  w.row_tasks = tasks.rows;
  w.o_tasks = tasks.o;
}

// One dimension of u = G g G^T: 3 elements at `from` to m + 2 at `to`, for kLine kernels at once.
// For m = 2: G = [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1]. For m = 4 the row of a point p is [1 p
// p^2] / N(p), where N is the product of p's distances to the other points.
constexpr int kLine = 16;
void transform_line(int m, const double* from, int64_t from_step, double* to, int64_t to_step) {
  struct Point {
    double even, odd, square;  // for the pair +-p: 1 / N, p / N, p^2 / N
  };
  constexpr double kRoot = 0.70710678118654752440;
  constexpr Point kTwo[] = {{0.5, 0.5, 0.5}};
  constexpr Point kFour[] = {{-1 / 1.5, -kRoot / 1.5, -0.5 / 1.5},
                             {1 / 6.0, 2 * kRoot / 6, 2 / 6.0}};
  const double *g0 = from, *g1 = from + from_step, *g2 = from + 2 * from_step;
  for (int t = 0; t < kLine; ++t) to[t] = g0[t];
  for (int pair = 0; pair < m / 2; ++pair) {
    const Point p = m == 2 ? kTwo[pair] : kFour[pair];
    double *plus = to + (2 * pair + 1) * to_step, *minus = plus + to_step;
    for (int t = 0; t < kLine; ++t) {
      const double even = p.even * g0[t] + p.square * g2[t], odd = p.odd * g1[t];
      plus[t] = even + odd;
      minus[t] = even - odd;
    }
  }
  for (int t = 0; t < kLine; ++t) to[(m + 1) * to_step + t] = g2[t];
}

// The transformed weights in the order in which run() reads them.
void pack_weight(const Winograd& w, const float* weight, float* to) {
  const int64_t side = w.side();
  int64_t kernels[kLine] = {};  // whose transforms are side by side
  int filled = 0;
  double g[9 * kLine] = {}, half[18 * kLine], u[36 * kLine];
  const auto flush = [&](float* at, int64_t element_step) {
    for (int t = 0; t < filled; ++t)
      for (int e = 0; e < 9; ++e) g[e * kLine + t] = weight[kernels[t] * 9 + e];
    for (int j = 0; j < 3; ++j)  // columns, then rows
      transform_line(w.m, g + j * kLine, 3 * kLine, half + j * kLine, 3 * kLine);
    for (int64_t i = 0; i < side; ++i)
      transform_line(w.m, half + 3 * i * kLine, kLine, u + i * side * kLine, kLine);
    for (int64_t e = 0; e < w.elements(); ++e)
      for (int t = 0; t < filled; ++t)
        at[e * element_step + t] = static_cast<float>(u[e * kLine + t]);
    filled = 0;
  };
  for (int64_t block = 0; block < w.blocks; ++block) {
    const int64_t first_o = w.first_o(block), rows = w.first_o(block + 1) - first_o;
    const int64_t element_step = rows * w.c;
    float* block_to = to + first_o * w.c * w.elements();
    for (int64_t k0 = 0; k0 < w.c; k0 += kDepthPiece) {
      const int64_t piece = std::min(kDepthPiece, w.c - k0);
      float* at = block_to + k0 * rows;
      int count;
      for (int64_t first = 0; first < rows; first += count) {
        count = block_rows(rows - first, w.gemm->mr);
        for (int64_t i = k0; i < k0 + piece; ++i)
          for (int r = 0; r < count; ++r) {
            kernels[filled++] = (first_o + first + r) * w.c + i;
            if (filled < kLine) continue;
            flush(at, element_step);
            at += kLine;
          }
      }
      flush(at, element_step);
    }
  }
}

Status prepare(PrepareContext& c) {
  Winograd w = winograd_of(c);
  const ConvShape& s = w.s;
  const int64_t nr = w.gemm->nr;
  // The larger transform rounds more and must be worth it. It also needs more memory for weights:
  // each additional byte must save a vector operation per run.
  const auto cost_of = [&](int m) {
    const int64_t tiles = ceil_div(w.out_y, m) * ceil_div(w.out_x, m);
    return cost(w, m, w.images * ceil_div(tiles, nr / 2), s.o);
  };
  const double two = cost_of(2), four = cost_of(4);
  const double more_bytes = static_cast<double>((36 - 16) * w.c * s.o * 4);
  w.m = 1.25 * four < two && (more_bytes < kLittleMemory || two - four > more_bytes) ? 4 : 2;
  w.table = &winograd_table(w.m);
  w.tiles_y = ceil_div(w.out_y, w.m);
  w.tiles_x = ceil_div(w.out_x, w.m);
  // The same number of blocks for each thread, if there are several.
  w.blocks = ceil_div(s.o, kBlock);
  if (w.blocks >= 2 * c.threads()) w.blocks = ceil_div(w.blocks, c.threads()) * c.threads();
  choose_tasks(w, c.threads());

  const int64_t packed_bytes = w.elements() * s.o * w.c * 4;
  w.packed =
      static_cast<const float*>(c.pack(1, str_cat("winograd", w.m, ".", w.gemm->mr, "/", w.blocks),
                                       packed_bytes, [w, weight = c.in(1).as<float>()](void* to) {
                                         pack_weight(w, weight, static_cast<float*>(to));
                                       }));
  if (w.packed == nullptr)
    return out_of_memory(c.label(), ": no memory for ", packed_bytes, " bytes of packed weights");
  const int64_t panels = ceil_div(w.tiles(), nr);
  // Odd numbers of cache lines, so that elements do not compete for the same cache sets.
  const auto step = [](int64_t floats) { return (ceil_div(floats, 16) | 1) * 16; };
  w.panel_floats = step(panels * nr * w.c);  // of one element
  w.product_step = step(kBlock * panels * nr);
  w.in_step = step((w.task_rows() + 1) * w.tiles_x + kWinogradSlack);
  w.out_step = step(w.tiles() + kWinogradSlack);
  w.row_width = w.m * (w.tiles_x + kWinogradSlack);
  w.lanes = tile_lanes(c, w.images * w.row_tasks * w.o_tasks);
  w.dense_at = w.elements() * (w.panel_floats + w.product_step) + kWinogradSlack + w.row_width +
               std::max(w.m * w.side() * w.in_step, w.m * w.m * w.out_step);
  const int64_t dense = s.dilation[2] > 1 ? w.m * w.task_rows() * w.out_x : 0;
  w.largest_at = w.dense_at + dense;
  w.largest_step = step(w.m * w.tiles_x + 2);
  w.alone_at = step(w.largest_at + (w.m * w.task_rows() + 3) * w.largest_step);
  const auto window_floats = static_cast<int64_t>(sizeof(AloneWindow) / 4);
  w.slot_bytes = (w.alone_at + w.m * w.m * w.tiles() * window_floats) * 4;
  c.set_workspace(tile_workspace(w.lanes, w.slot_bytes));
  c.make_state(w);
  return {};
}

// An image: the rows and columns of plane z of y, in element n of the batch, that are a dilation
// apart, starting at (y, x).
struct Image {
  int64_t n, z, y, x;
  int64_t height, width;
};
Image image_of(const ConvShape& s, int64_t index) {
  const int64_t x = index % s.dilation[2], y = index / s.dilation[2] % s.dilation[1];
  const int64_t plane = index / s.dilation[2] / s.dilation[1];
  return {.n = plane / s.out[0],
          .z = plane % s.out[0],
          .y = y,
          .x = x,
          .height = std::max<int64_t>(0, ceil_div(s.out[1] - y, s.dilation[1])),
          .width = std::max<int64_t>(0, ceil_div(s.out[2] - x, s.dilation[2]))};
}

// The rows of a plane of x (zeros if it is null) that `rows` rows of tiles from `first` on read,
// surrounded by zeros, as planes of equal positions in the tiles. Also computes their `largest`.
void split_rows(const Winograd& w, const Image& image, const float* x, int64_t first, int64_t rows,
                float* row_buffer, float* planes, uint32_t* largest) {
  const ConvShape& s = w.s;
  const int64_t used = w.m * w.tiles_x + 2, step = s.dilation[2];
  // Column j of the buffer is column j step + begin of x.
  const int64_t begin = image.x - s.padding[2];
  const int64_t left = std::min(begin < 0 ? ceil_div(-begin, step) : 0, used);
  const int64_t right = std::clamp<int64_t>(ceil_div(s.in[2] - begin, step), left, used);
  for (int64_t row = 0; row < w.m * rows + 2; ++row) {
    const int64_t in_y = image.y - s.padding[1] + (w.m * first + row) * s.dilation[1];
    const float* from = x == nullptr || in_y < 0 || in_y >= s.in[1] ? nullptr : x + in_y * s.in[2];
    uint32_t* const largest_row = largest + row * w.largest_step;
    if (step == 1 || from == nullptr) {
      w.table->pad_row(from, left, right - left, used, row_buffer, largest_row);
    } else {
      std::fill_n(row_buffer, used, 0.0f);
      for (int64_t j = left; j < right; ++j) row_buffer[j] = from[begin + j * step];
      w.table->largest(row_buffer, used, largest_row);
    }
    w.table->split(row_buffer, w.tiles_x,
                   planes + row % w.m * w.side() * w.in_step + row / w.m * w.tiles_x, w.in_step);
  }
}

// The plane of x that input channel i of an image uses; null in the padding.
const float* plane_of(const Winograd& w, const Image& image, const float* x, int64_t i) {
  const ConvShape& s = w.s;
  const int64_t z = image.z * s.stride[0] - s.padding[0] + i % s.kernel[0] * s.dilation[0];
  if (z < 0 || z >= s.in[0]) return nullptr;
  return x + ((image.n * s.c + i / s.kernel[0]) * s.in[0] + z) * s.in[1] * s.in[2];
}

// Row `row` of a block of output channels: the directly computed sums of some windows in the rows
// of tiles from `first` on.
void sum_alone(const Winograd& w, const Image& image, const float* x, int64_t block, int64_t row,
               int64_t first, std::span<const AloneWindow> windows, float* to, int64_t to_step) {
  const ConvShape& s = w.s;
  constexpr size_t kGroup = 8;  // windows that share reading a kernel
  struct Tap {
    int64_t offset, of_kernel;
  };
  for (size_t begin = 0; begin < windows.size(); begin += kGroup) {
    const auto group = windows.subspan(begin, std::min(kGroup, windows.size() - begin));
    Tap taps[9 * kGroup];
    size_t ends[kGroup], count = 0;
    double sums[kGroup] = {};
    for (size_t k = 0; k < group.size(); ++k) {
      for (int64_t e = 0; e < 9 && group[k].is_zero == 0; ++e) {
        const int64_t y =
            image.y - s.padding[1] + (w.m * first + group[k].line + e / 3) * s.dilation[1];
        const int64_t column = image.x - s.padding[2] + (group[k].column + e % 3) * s.dilation[2];
        if (y >= 0 && y < s.in[1] && column >= 0 && column < s.in[2])
          taps[count++] = {y * s.in[2] + column, e};
      }
      ends[k] = count;
    }
    for (int64_t i = 0; i < w.c && count > 0; ++i) {
      const float* const plane = plane_of(w, image, x, i);
      if (plane == nullptr) continue;
      double kernel[9];
      kernel_of_transform(w.m, w.packed_at(block, row, i), w.packed_step(block), kernel);
      for (size_t k = 0, at = 0; k < group.size(); ++k)
        for (; at < ends[k]; ++at)
          sums[k] += kernel[taps[at].of_kernel] * double{plane[taps[at].offset]};
    }
    for (size_t k = 0; k < group.size(); ++k)
      to[group[k].line * to_step + group[k].column] = static_cast<float>(sums[k]);
  }
}

// Row `row` of a block of output channels, for an image's rows of tiles: transforms the products
// back into y.
void finish_rows(const Winograd& w, const RunContext& c, const Image& image, int64_t block,
                 int64_t row, int64_t first, int64_t rows, const float* products, float* room,
                 float* dense, std::span<const AloneWindow> alone) {
  const ConvShape& s = w.s;
  const int64_t height = std::min(w.m * rows, image.height - w.m * first), width = image.width;
  const int64_t row_step = s.dilation[1] * s.out[2], o = w.first_o(block) + row;
  const int64_t plane = (image.n * s.o + o) * s.out[0] + image.z;
  const int64_t offset = (plane * s.out[1] + image.y) * s.out[2] + image.x + w.m * first * row_step;
  float* y = c.out(0).as<float>() + offset;
  const bool in_place = s.dilation[2] == 1;
  float* to = in_place ? y : dense;
  const int64_t to_step = in_place ? row_step : width;
  w.table->output(rows, w.tiles_x, products, w.product_step, room, w.out_step, to, to_step, height,
                  width);
  sum_alone(w, image, c.in(0).as<float>(), block, row, first, alone, to, to_step);
  Epilogue e = {.activation = s.activation,
                .row_bias = c.has(2) ? c.in(2).as<float>() + o : nullptr,
                .residual = c.has(3) ? c.in(3).as<float>() + offset : nullptr};
  if (!e.empty()) {
    // Consecutive rows are treated as one.
    const bool is_one = to_step == width;
    const int64_t count = is_one ? 1 : height, columns = is_one ? height * width : width;
    for (int64_t r = 0; r < count; ++r) {
      w.gemm->finish(1, columns, e, to + r * to_step, columns);
      if (e.residual != nullptr) e.residual += row_step;
    }
  }
  if (in_place) return;
  for (int64_t r = 0; r < height; ++r)
    for (int64_t j = 0; j < width; ++j) y[r * row_step + j * s.dilation[2]] = dense[r * width + j];
}

void run(const RunContext& c) noexcept {
  const Winograd& w = c.state<Winograd>();
  const ConvShape& s = w.s;
  const float* x = c.in(0).as<float>();
  const int64_t nr = w.gemm->nr, parts = w.images * w.row_tasks;
  for_tiles(c, parts * w.o_tasks, w.lanes, w.slot_bytes, [&](int64_t index, float* slot) {
    // Neighboring tasks have the same output channels, whose weights are then read once.
    const int64_t o_part = index / parts, row = index % w.row_tasks;
    const Image image = image_of(s, index % parts / w.row_tasks);
    const int64_t first = w.first_row(row), rows = w.first_row(row + 1) - first;
    if (image.height <= w.m * first || image.width == 0) return;
    const int64_t tiles = rows * w.tiles_x, panels = ceil_div(tiles, nr);
    float* panel = slot;
    float* products = panel + w.elements() * w.panel_floats;
    float* row_buffer = products + w.elements() * w.product_step + kWinogradSlack;
    float* planes = row_buffer + w.row_width;
    float* dense = slot + w.dense_at;
    // The transforms read whole vectors. What earlier nodes left after the tiles may be subnormal
    // numbers, which are slow.
    std::fill(row_buffer, dense, 0.0f);
    const int64_t lines = w.m * rows + 2;
    uint32_t* const largest = reinterpret_cast<uint32_t*>(slot + w.largest_at);
    std::fill_n(largest, lines * w.largest_step, 0u);

    // Element e of channel i is in the panels e of [pieces of c][panels][piece][nr].
    for (int64_t i = 0; i < w.c; ++i) {
      split_rows(w, image, plane_of(w, image, x, i), first, rows, row_buffer, planes, largest);
      const int64_t k0 = i / kDepthPiece * kDepthPiece, piece = std::min(kDepthPiece, w.c - k0);
      w.table->input(tiles, w.tiles_x, planes, w.in_step, panel + (k0 * panels + (i - k0)) * nr,
                     w.panel_floats, piece * nr);
    }

    AloneWindow* const windows = reinterpret_cast<AloneWindow*>(slot + w.alone_at);
    const int64_t height = std::min(w.m * rows, image.height - w.m * first);
    const int64_t alone = find_alone(*w.table, w.m, rows, w.tiles_x, height, image.width, largest,
                                     w.largest_step, largest + lines * w.largest_step, windows);

    // Whole vectors: elements beyond the tiles are padding and never read back.
    const int64_t whole = ceil_div(tiles, nr / 2) * (nr / 2);
    for (int64_t block = w.first_block(o_part); block < w.first_block(o_part + 1); ++block) {
      const int64_t first_o = w.first_o(block), outs = w.first_o(block + 1) - first_o;
      const float* u = w.packed + first_o * w.c * w.elements();
      for (int64_t e = 0; e < w.elements(); ++e)
        for (int64_t k0 = 0; k0 < w.c; k0 += kDepthPiece) {
          const int64_t piece = std::min(kDepthPiece, w.c - k0);
          const float* from = panel + e * w.panel_floats + k0 * panels * nr;
          w.gemm->sweep({.rows = outs,
                         .columns = whole,
                         .k = piece,
                         .left = outs,
                         .a = u + (e * w.c + k0) * outs,
                         .is_packed = true,
                         .panels = from,
                         .panel_step = piece * nr,
                         .near_panels = true,
                         .y = products + e * w.product_step,
                         .y_row = panels * nr,
                         .add = k0 > 0});
        }
      for (int64_t i = 0; i < outs; ++i)
        finish_rows(w, c, image, block, i, first, rows, products + i * panels * nr, row_buffer,
                    dense, {windows, static_cast<size_t>(alone)});
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv", .name = "winograd", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_winograd() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
