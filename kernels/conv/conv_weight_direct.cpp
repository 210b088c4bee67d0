// SPDX-License-Identifier: Apache-2.0
// The gradient of a convolution's weight in f32 without a patch matrix. Pixels of x are copied once
// with adjacent channels and zero padding. Kernel element k of dw[o, channels] is then the matrix
// product of dy[o, pixels] and the copied pixels that k reads. A task handles some channels and
// kernel rows, and sums over all images in order.
#include <algorithm>
#include <vector>

#include "kernels/ceil_div.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kPixels = 384;      // of y in a piece, approximately
constexpr int64_t kFewTasks = 8;      // fewer are split by rows of the kernel
constexpr int64_t kLongestRow = 512;  // of y in one piece
constexpr int64_t kTerms = 128;       // summed up separately, to limit the rounding error

struct WeightDirect {
  ConvShape s;
  const GemmTable* table = nullptr;
  int64_t panels = 1;                // of nr channels, in a group
  int64_t kernel_rows = 1;           // of a task
  int64_t images = 1, y = 1, x = 1;  // size of a piece of dy
  // The copy: [images][in_y][in_x][nr], every step_y-th row and step_x-th column of x.
  int64_t step_y = 1, step_x = 1, in_y = 1, in_x = 1;
  std::vector<int64_t> offset;      // of each pixel of a piece in the copy
  std::vector<int64_t> tap_offset;  // of each kernel element of a task, added to that
  // In a slot: the copy, dy of several images side by side, sums[o][kernel element][nr].
  int64_t copy_floats = 0, beside_floats = 0, lanes = 1, slot_bytes = 0;

  int64_t pixels() const { return images * y * x; }
  int64_t taps() const { return kernel_rows * s.kernel[2]; }
  int64_t parts() const { return s.kernel[1] / kernel_rows; }
};

// At least half a vector of channels. With few channels, a patch matrix fills vectors better.
bool accepts(const PrepareContext& c) {
  if (c.out(0).dtype != f32 || c.out(0).count() == 0 || c.in(1).count() == 0) return false;
  const ConvShape s = conv_weight_grad_shape(c.in(0), c.in(1), c.attrs());
  return s.kernel[0] == 1 && s.in[0] == 1 && s.out[0] == 1 && s.group_c() * 4 >= gemm_table().nr;
}

void choose_piece(WeightDirect& w) {
  const ConvShape& s = w.s;
  w.y = s.out[1];
  w.x = s.out[2];
  if (s.out[2] > kLongestRow) {
    w.x = ceil_div(s.out[2], ceil_div(s.out[2], kLongestRow));
    w.y = 1;
  } else if (s.out_size() > kPixels) {
    w.y = ceil_div(s.out[1], ceil_div(s.out[1], std::max<int64_t>(1, kPixels / s.out[2])));
  } else {
    w.images = std::clamp<int64_t>(kPixels / s.out_size(), 1, s.n);
  }
}

Status prepare(PrepareContext& c) {
  WeightDirect w;
  w.s = conv_weight_grad_shape(c.in(0), c.in(1), c.attrs());
  const ConvShape& s = w.s;
  w.table = &gemm_table();
  const int64_t nr = w.table->nr;
  w.panels = ceil_div(s.group_c(), nr);
  w.kernel_rows = s.groups * w.panels < kFewTasks ? 1 : s.kernel[1];
  choose_piece(w);
  const int64_t reach_y = (w.kernel_rows - 1) * s.dilation[1];
  const int64_t reach_x = (s.kernel[2] - 1) * s.dilation[2];
  // Rows and columns that no kernel element reads are not copied.
  if (reach_y == 0) w.step_y = s.stride[1];
  if (reach_x == 0) w.step_x = s.stride[2];
  w.in_y = ((w.y - 1) * s.stride[1] + reach_y) / w.step_y + 1;
  w.in_x = ((w.x - 1) * s.stride[2] + reach_x) / w.step_x + 1;
  const auto offset_of = [&](int64_t image, int64_t y, int64_t x) {
    return ((image * w.in_y + y / w.step_y) * w.in_x + x / w.step_x) * nr;
  };
  for (int64_t image = 0; image < w.images; ++image)
    for (int64_t y = 0; y < w.y; ++y)
      for (int64_t x = 0; x < w.x; ++x)
        w.offset.push_back(offset_of(image, y * s.stride[1], x * s.stride[2]));
  // If rows or columns are omitted, the kernel elements of a task have one row or column.
  for (int64_t ky = 0; ky < w.kernel_rows; ++ky)
    for (int64_t kx = 0; kx < s.kernel[2]; ++kx)
      w.tap_offset.push_back(offset_of(0, ky * s.dilation[1], kx * s.dilation[2]));
  w.copy_floats = w.images * w.in_y * w.in_x * nr;
  w.beside_floats = w.images > 1 ? s.group_o() * w.pixels() : 0;
  w.lanes = tile_lanes(c, s.groups * w.panels * w.parts());
  w.slot_bytes = (w.copy_floats + w.beside_floats + w.taps() * s.group_o() * nr) * 4;
  c.set_workspace(tile_workspace(w.lanes, w.slot_bytes));
  c.make_state(std::move(w));
  return {};
}

struct Piece {
  int64_t image, y, x, images, rows, columns;  // of dy
};

// Channels of x around a piece, from the kernel's row `ky` on; x points to the first channel.
void copy_pixels(const WeightDirect& w, const Piece& piece, int64_t ky, int64_t channels,
                 const float* x, float* to) {
  const ConvShape& s = w.s;
  const int64_t nr = w.table->nr;
  const int64_t first_y = piece.y * s.stride[1] - s.padding[1] + ky * s.dilation[1];
  const int64_t first_x = piece.x * s.stride[2] - s.padding[2];
  const int64_t before = std::min(w.in_x, ceil_div(std::max<int64_t>(0, -first_x), w.step_x));
  const int64_t room = s.in[2] - first_x;
  const int64_t end = std::clamp(ceil_div(std::max<int64_t>(0, room), w.step_x), before, w.in_x);
  for (int64_t image = 0; image < piece.images; ++image)
    for (int64_t row = 0; row < w.in_y; ++row, to += w.in_x * nr) {
      const int64_t in_y = first_y + row * w.step_y;
      if (in_y < 0 || in_y >= s.in[1]) {
        std::fill_n(to, w.in_x * nr, 0.0f);
        continue;
      }
      const float* from = x + (piece.image + image) * s.c * s.in_size() + in_y * s.in[2] + first_x;
      std::fill_n(to, before * nr, 0.0f);
      if (end > before)
        w.table->pack(end - before, channels, from + before * w.step_x, w.step_x, s.in_size(),
                      to + before * nr, 0);
      std::fill_n(to + end * nr, (w.in_x - end) * nr, 0.0f);
    }
}

// f(piece) for all pieces of dy, in order.
template <class F>
void for_pieces(const WeightDirect& w, const F& f) {
  const ConvShape& s = w.s;
  for (int64_t image = 0; image < s.n; image += w.images)
    for (int64_t y = 0; y < s.out[1]; y += w.y)
      for (int64_t x = 0; x < s.out[2]; x += w.x)
        f(Piece{image, y, x, std::min(w.images, s.n - image), std::min(w.y, s.out[1] - y),
                std::min(w.x, s.out[2] - x)});
}

void run(const RunContext& c) noexcept {
  const WeightDirect& w = c.state<WeightDirect>();
  const ConvShape& s = w.s;
  const float* all_x = c.in(0).as<float>();
  const float* all_dy = c.in(1).as<float>();
  float* dw = c.out(0).as<float>();
  const int mr = w.table->mr, nr = w.table->nr, lanes = nr / 2;
  const int64_t rows = s.group_o(), size = s.out_size(), taps = w.taps();
  const int64_t tasks = s.groups * w.panels * w.parts();
  for_tiles(c, tasks, w.lanes, w.slot_bytes, [&](int64_t index, float* slot) {
    const int64_t group = index / (w.panels * w.parts());
    const int64_t channel = index / w.parts() % w.panels * nr;  // the first, of the group
    const int64_t ky = index % w.parts() * w.kernel_rows;
    const int64_t channels = std::min<int64_t>(nr, s.group_c() - channel);
    const float* x = all_x + (group * s.group_c() + channel) * s.in_size();
    float* beside = slot + w.copy_floats;
    float* sums = beside + w.beside_floats;
    const auto columns_at = [&](int64_t tap) {
      const float* at = slot + w.tap_offset[tap];
      return Columns{.vectors = channels > lanes ? 2 : 1,
                     .x = {at, at + lanes},
                     .at = {0, lanes},
                     .valid = {lanes, lanes}};
    };
    bool add = false;
    for_pieces(w, [&](const Piece& piece) {
      copy_pixels(w, piece, ky, channels, x, slot);
      const float* dy =
          all_dy + (piece.image * s.o + group * rows) * size + piece.y * s.out[2] + piece.x;
      int64_t dy_row = size;
      if (piece.images > 1) {
        for (int64_t o = 0; o < rows; ++o)
          for (int64_t image = 0; image < piece.images; ++image)
            std::copy_n(dy + (image * s.o + o) * size, size,
                        beside + o * w.pixels() + image * size);
        dy = beside;
        dy_row = w.pixels();
      }
      const int64_t pixels = piece.images * piece.rows * piece.columns;
      for (int64_t p = 0; p < pixels; p += kTerms) {
        int count;
        for (int64_t o = 0; o < rows; o += count) {
          count = block_rows(rows - o, mr);
          for (int64_t tap = 0; tap < taps; ++tap)
            w.table->gather({.rows = count,
                             .k = std::min(kTerms, pixels - p),
                             .a = dy + o * dy_row + p,
                             .a_row = dy_row,
                             .a_col = 1,
                             .y = sums + (o * taps + tap) * nr,
                             .y_row = taps * nr,
                             .add = add || p > 0},
                            columns_at(tap), w.offset.data() + p);
        }
      }
      add = true;
    });
    const int64_t kernel = s.kernel_size();
    for (int64_t o = 0; o < rows; ++o)
      for (int64_t i = 0; i < channels; ++i) {
        float* to =
            dw + ((group * rows + o) * s.group_c() + channel + i) * kernel + ky * s.kernel[2];
        for (int64_t tap = 0; tap < taps; ++tap) to[tap] = sums[(o * taps + tap) * nr + i];
      }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv_weight_grad",
     .name = "direct",
     .accepts = accepts,
     .prepare = prepare,
     .run = run},
};

}  // namespace

std::span<const KernelDef> conv_weight_direct() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
