// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions with stride 1 in f32 after Winograd, F(2x2, 3x3): 16 products of transformed
// weights and tiles take 2.25 times fewer multiplications, and are no less exact than the direct
// sum. Larger tiles would be faster still for wide images, at several times the error.
//
// A task has some rows of tiles of one image and some of the output channels. It transforms its
// tiles of all input channels into panels, then multiplies and transforms back kBlock output
// channels at a time.
#include "kernels/conv_winograd.h"

#include <algorithm>

#include "kernels/conv_shape.h"
#include "kernels/gemm.h"

namespace hg::kernels {
namespace {

constexpr int64_t kPiece = 256;  // of the input channels
constexpr int64_t kBlock = 24;   // output channels
constexpr int64_t kElements = 16;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Winograd {
  ConvShape s;
  const GemmTable* gemm = nullptr;
  const WinogradTable* table = nullptr;
  const float* packed = nullptr;  // [blocks of o][16][pieces of c][rows of gemm][piece][rows]
  int64_t tiles_x = 0, tiles_y = 0;
  int64_t task_rows = 0, row_tasks = 0;  // rows of tiles of a task, tasks of an image
  int64_t task_o = 0, o_tasks = 0;       // output channels of a task
  int64_t lanes = 1, slot_bytes = 0;
  // Parts of a slot, in floats.
  int64_t panel_floats = 0, line_step = 0, product_step = 0, plane_width = 0;

  int64_t tiles() const { return task_rows * tiles_x; }
};

bool accepts(const PrepareContext& c) {
  if (c.out(0).dtype != f32 || c.attrs().flag("transposed") || !c.is_constant(1)) return false;
  const ConvShape s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  using Spatial = ConvShape::Spatial;
  return s.kernel == Spatial{1, 3, 3} && s.in[0] == 1 && s.out[0] == 1 && s.padding[0] == 0 &&
         s.stride == Spatial{1, 1, 1} && s.dilation == Spatial{1, 1, 1} && s.groups == 1 &&
         s.c >= 16 && s.o >= 16 && s.out_size() >= 36 && s.n > 0;
}

// u = G g G^T with G = [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1]
void transform_weight(const float* g, double (&u)[kElements]) {
  double half[4][3];
  for (int j = 0; j < 3; ++j) {
    const double a = g[j], b = g[3 + j], c = g[6 + j];
    half[0][j] = a;
    half[1][j] = (a + b + c) / 2;
    half[2][j] = (a - b + c) / 2;
    half[3][j] = c;
  }
  for (int i = 0; i < 4; ++i) {
    const double a = half[i][0], b = half[i][1], c = half[i][2];
    u[4 * i + 0] = a;
    u[4 * i + 1] = (a + b + c) / 2;
    u[4 * i + 2] = (a - b + c) / 2;
    u[4 * i + 3] = c;
  }
}

// The transformed weights in the order in which run() reads them.
void pack_weight(const Winograd& w, const float* weight, float* to) {
  const ConvShape& s = w.s;
  for (int64_t block = 0; block < s.o; block += kBlock) {
    const int64_t rows = std::min(kBlock, s.o - block), element_step = rows * s.c;
    float* block_to = to + block * s.c * kElements;
    for (int64_t k0 = 0; k0 < s.c; k0 += kPiece) {
      const int64_t piece = std::min(kPiece, s.c - k0);
      float* at = block_to + k0 * rows;
      int count;
      for (int64_t first = 0; first < rows; first += count) {
        count = block_rows(rows - first, w.gemm->mr);
        for (int64_t i = k0; i < k0 + piece; ++i)
          for (int r = 0; r < count; ++r, ++at) {
            double u[kElements];
            transform_weight(weight + ((block + first + r) * s.c + i) * 9, u);
            for (int64_t e = 0; e < kElements; ++e) at[e * element_step] = static_cast<float>(u[e]);
          }
      }
    }
  }
}

Status prepare(PrepareContext& c) {
  Winograd w;
  w.s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  const ConvShape& s = w.s;
  w.gemm = &gemm_table();
  w.table = &winograd_table();
  w.tiles_y = ceil_div(s.out[1], 2);
  w.tiles_x = ceil_div(s.out[2], 2);
  const int64_t nr = w.gemm->nr;
  // As many rows of tiles as keep the transformed input below 1 MiB, in equal parts.
  const int64_t most = std::clamp<int64_t>(16384 / s.c, 16, 256);
  const int64_t fit = std::max<int64_t>(1, most / w.tiles_x);
  w.row_tasks = ceil_div(w.tiles_y, fit);
  w.task_rows = ceil_div(w.tiles_y, w.row_tasks);
  w.row_tasks = ceil_div(w.tiles_y, w.task_rows);
  // Few tasks with much work share the rows and divide the output channels.
  w.o_tasks = 1;
  const int64_t blocks = ceil_div(s.o, kBlock);
  while (s.n * w.row_tasks * w.o_tasks < 4 && w.o_tasks * 4 <= blocks) w.o_tasks *= 2;
  w.task_o = ceil_div(blocks, w.o_tasks) * kBlock;
  w.o_tasks = ceil_div(s.o, w.task_o);

  w.packed = static_cast<const float*>(
      c.pack(1, w.gemm->mr == 12 ? "winograd.12" : "winograd.6", kElements * s.o * s.c * 4,
             [&](void* to) { pack_weight(w, c.in(1).as<float>(), static_cast<float*>(to)); }));
  if (w.packed == nullptr)
    return out_of_memory(c.label(), ": no memory for ", kElements * s.o * s.c * 4,
                         " bytes of packed weights");
  const int64_t panels = ceil_div(w.tiles(), nr);
  w.panel_floats = panels * nr * s.c;  // of one element
  w.line_step = (w.tiles() + kWinogradSlack + 15) / 16 * 16;
  w.product_step = kBlock * panels * nr;
  w.plane_width = 2 * (w.tiles_x + kWinogradSlack);
  w.lanes = tile_lanes(c, s.n * w.row_tasks * w.o_tasks);
  w.slot_bytes =
      (kElements * w.panel_floats + kElements * w.line_step + kElements * w.product_step +
       kWinogradSlack + (2 * w.task_rows + 2) * w.plane_width) *
      4;
  c.set_workspace(tile_workspace(w.lanes, w.slot_bytes));
  c.make_state(w);
  return {};
}

// The rows of x that `rows` rows of tiles from `first` on need, with zeros around them.
void pad_rows(const Winograd& w, const float* x, int64_t first, int64_t rows, float* to) {
  const ConvShape& s = w.s;
  const int64_t used = 2 * w.tiles_x + 2, left = std::min(s.padding[2], used);
  const int64_t right = std::clamp<int64_t>(left + s.in[2], left, used);
  for (int64_t row = 0; row < 2 * rows + 2; ++row, to += w.plane_width) {
    const int64_t in_y = 2 * first + row - s.padding[1];
    const float* from = in_y < 0 || in_y >= s.in[1] ? nullptr : x + in_y * s.in[2];
    w.table->pad_row(from, left, right - left, used, to);
  }
}

void run(const RunContext& c) noexcept {
  const Winograd& w = c.state<Winograd>();
  const ConvShape& s = w.s;
  const float* x = c.in(0).as<float>();
  const float* bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const float* residual = c.has(3) ? c.in(3).as<float>() : nullptr;
  float* y = c.out(0).as<float>();
  const int64_t nr = w.gemm->nr, width = s.out[2];
  for_tiles(
      c, s.n * w.row_tasks * w.o_tasks, w.lanes, w.slot_bytes, [&](int64_t index, float* slot) {
        const int64_t o_begin = index % w.o_tasks * w.task_o;
        const int64_t o_end = std::min(s.o, o_begin + w.task_o);
        const int64_t first = index / w.o_tasks % w.row_tasks * w.task_rows;
        const int64_t image = index / (w.o_tasks * w.row_tasks);
        const int64_t rows = std::min(w.task_rows, w.tiles_y - first), tiles = rows * w.tiles_x;
        const int64_t panels = ceil_div(tiles, nr);
        float* panel = slot;
        float* lines = panel + kElements * w.panel_floats;
        float* products = lines + kElements * w.line_step;
        float* plane = products + kElements * w.product_step + kWinogradSlack;

        // Element e of channel i lies in the panels e of [pieces of c][panels][piece][nr].
        for (int64_t i = 0; i < s.c; ++i) {
          pad_rows(w, x + (image * s.c + i) * s.in_size(), first, rows, plane);
          w.table->input(rows, w.tiles_x, plane, w.plane_width, lines, w.line_step);
          const int64_t k0 = i / kPiece * kPiece, piece = std::min(kPiece, s.c - k0);
          for (int64_t e = 0; e < kElements; ++e)
            w.gemm->spread(tiles, lines + e * w.line_step,
                           panel + e * w.panel_floats + (k0 * panels + (i - k0)) * nr, piece * nr);
        }

        const int64_t height = std::min(2 * rows, s.out[1] - 2 * first);
        for (int64_t block = o_begin; block < o_end; block += kBlock) {
          const int64_t outs = std::min(kBlock, s.o - block);
          const float* u = w.packed + block * s.c * kElements;
          for (int64_t e = 0; e < kElements; ++e)
            for (int64_t k0 = 0; k0 < s.c; k0 += kPiece) {
              const int64_t piece = std::min(kPiece, s.c - k0);
              const float* from = panel + e * w.panel_floats + k0 * panels * nr;
              for (int64_t j = 0; j < panels; ++j, from += piece * nr) {
                const int columns = static_cast<int>(std::min(nr, tiles - j * nr));
                // Whole vectors: what lies beyond the tiles is room, and never read back.
                const int whole =
                    columns > nr / 2 ? static_cast<int>(nr) : static_cast<int>(nr / 2);
                int count;
                for (int64_t i = 0; i < outs; i += count) {
                  count = block_rows(outs - i, w.gemm->mr);
                  w.gemm->block({.rows = count,
                                 .k = piece,
                                 .a = u + (e * s.c + k0) * outs + i * piece,
                                 .a_row = 1,
                                 .a_col = count,
                                 .y = products + e * w.product_step + i * panels * nr + j * nr,
                                 .y_row = panels * nr,
                                 .add = k0 > 0},
                                whole, from);
                }
              }
            }
          for (int64_t i = 0; i < outs; ++i) {
            const int64_t o = block + i;
            const int64_t offset = ((image * s.o + o) * s.out[1] + 2 * first) * width;
            w.table->output(rows, w.tiles_x, products + i * panels * nr, w.product_step, y + offset,
                            height, width, plane);
            const Epilogue e = {.activation = s.activation,
                                .row_bias = bias ? bias + o : nullptr,
                                .residual = residual ? residual + offset : nullptr};
            if (!e.empty()) w.gemm->finish(1, height * width, e, y + offset, height * width);
          }
        }
      });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv", .name = "winograd", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_winograd() { return kKernels; }

}  // namespace hg::kernels
