// SPDX-License-Identifier: Apache-2.0
// f32 convolutions as one matrix product over pixels that are not adjacent in an image, so that
// vectors are full and no zeros are multiplied. Used for batches of small images, and for each
// phase of a strided transposed convolution. A phase is the set of pixels of y with equal remainder
// modulo the stride; all of them read the same kernel elements, with stride 1.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/conv/conv_patches.h"
#include "kernels/gemm/gemm.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kColumns = 128;        // of a product, approximately
constexpr int64_t kMostPacked = 262144;  // limit of weights that a run packs as a whole

struct Phase {
  ConvShape s;                      // of the pixels of this phase
  ConvShape::Spatial first_y = {};  // first pixel of y; the next ones are a stride apart
  int64_t first_tap = 0;            // in `taps`
  int64_t depth = 0;                // k
  int64_t images = 1, pixels = 0;   // of a product
  int64_t packed_at = 0;
};

struct ConvColumns {
  ConvShape s;
  const GemmTable* table = nullptr;
  std::vector<Phase> phases;
  std::vector<int64_t> taps;      // of the phases: elements of the whole kernel
  const float* packed = nullptr;  // [phases][blocks of rows][depth, rows]
  int64_t blocks = 0;             // of rows
  // The workspace: panels of the patches, products [o, columns], and packed weights of this run.
  int64_t panel_floats = 0, product_floats = 0;
  bool packs_all = false, packs_pieces = false;  // in this run

  int64_t first_row(int64_t block) const { return s.o * block / blocks; }
};

bool has_steps(const ConvShape& s) {
  return s.transposed && s.stride != ConvShape::Spatial{1, 1, 1};
}

// Of a phase's pixels and kernel elements.
int64_t phase_step(const ConvShape& s, size_t d) { return has_steps(s) ? s.stride[d] : 1; }

// Rows of y shorter than two vectors waste more time than gathering their patches costs. Gradients
// of small images arrive transposed (lib/ops/conv.cpp).
bool accepts(const PrepareContext& c) {
  if (c.out(0).dtype != f32 || c.out(0).count() == 0 || c.attrs().integer("groups") != 1)
    return false;
  const ConvShape s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  if (s.c == 0) return false;
  const int64_t few = 2 * gemm_table().nr;
  if (!has_steps(s)) return s.n > 1 && s.out_size() < few && s.o >= gemm_table().mr;
  for (size_t d = 0; d < 3; ++d)
    if (s.stride[d] > 1 && s.dilation[d] > 1) return false;
  return true;
}

// The phase that begins at pixel `first` of y: input = (output + padding - k) / stride. Adds its
// kernel elements to `taps`.
Phase phase_of(const ConvShape& s, const ConvShape::Spatial& first, std::vector<int64_t>& taps) {
  Phase phase = {.s = s, .first_y = first, .first_tap = int64_t(taps.size())};
  ConvShape::Spatial first_k = {};
  for (size_t d = 0; d < 3; ++d) {
    const int64_t stride = phase_step(s, d);
    if (stride == 1) continue;
    first_k[d] = (first[d] + s.padding[d]) % stride;
    phase.s.kernel[d] = std::max<int64_t>(0, ceil_div(s.kernel[d] - first_k[d], stride));
    phase.s.padding[d] = (first[d] + s.padding[d] - first_k[d]) / stride;
    phase.s.out[d] = ceil_div(s.out[d] - first[d], stride);
    phase.s.stride[d] = 1;
  }
  for (int64_t z = first_k[0]; z < s.kernel[0]; z += phase_step(s, 0))
    for (int64_t y = first_k[1]; y < s.kernel[1]; y += phase_step(s, 1))
      for (int64_t x = first_k[2]; x < s.kernel[2]; x += phase_step(s, 2))
        taps.push_back((z * s.kernel[1] + y) * s.kernel[2] + x);
  phase.depth = s.c * phase.s.kernel_size();
  phase.images = std::clamp<int64_t>(kColumns / std::max<int64_t>(1, phase.s.out_size()), 1, s.n);
  phase.pixels = phase.images > 1 ? phase.s.out_size() : std::min(kColumns, phase.s.out_size());
  return phase;
}

// Packs elements [k0, k0 + piece) of the weights of the blocks [begin, end) as left operands:
// element p of row r at [p, r].
void pack_blocks(const ConvColumns& g, const Phase& phase, const float* weight, int64_t k0,
                 int64_t piece, int64_t begin, int64_t end, float* to) {
  const ConvShape& s = g.s;
  const int64_t taps = phase.s.kernel_size();
  const int64_t row_step = (s.transposed ? 1 : s.c) * s.kernel_size();
  const int64_t channel_step = (s.transposed ? s.o : 1) * s.kernel_size();
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = g.first_row(block), rows = g.first_row(block + 1) - first;
    float* at = to + first * piece;
    int64_t count;  // of one channel
    for (int64_t k = k0; k < k0 + piece; k += count, at += count * rows) {
      const int64_t tap = k % taps;
      count = std::min(taps - tap, k0 + piece - k);
      const float* from = weight + k / taps * channel_step + first * row_step;
      const int64_t* tap_at = g.taps.data() + phase.first_tap + tap;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < count; ++i) at[i * rows + r] = from[r * row_step + tap_at[i]];
    }
  }
}

Status prepare(PrepareContext& c) {
  ConvColumns g;
  g.s = conv_shape(c.in(0), c.in(1), c.out(0), c.attrs());
  const ConvShape& s = g.s;
  g.table = &gemm_table();
  const ConvShape::Spatial step = {phase_step(s, 0), phase_step(s, 1), phase_step(s, 2)};
  int64_t all_depths = 0, columns = 0;
  for (int64_t z = 0; z < std::min(step[0], s.out[0]); ++z)
    for (int64_t y = 0; y < std::min(step[1], s.out[1]); ++y)
      for (int64_t x = 0; x < std::min(step[2], s.out[2]); ++x) {
        g.phases.push_back(phase_of(s, {z, y, x}, g.taps));
        Phase& phase = g.phases.back();
        phase.packed_at = s.o * all_depths;
        all_depths += phase.depth;
        columns = std::max(columns, phase.images * phase.pixels);
      }
  g.blocks = ceil_div(s.o, g.table->mr);
  if (c.is_constant(1)) {
    const float* weight = c.in(1).as<float>();
    // Phases depend on the stride, and their kernel elements on the padding.
    const std::string key =
        str_cat("conv.columns", s.transposed ? ".transposed" : "", g.table->mr, "/", step[0], ",",
                step[1], ",", step[2], "/", s.padding[0] % step[0], ",", s.padding[1] % step[1],
                ",", s.padding[2] % step[2], "/", int64_t(g.phases.size()));
    g.packed =
        static_cast<const float*>(c.pack(1, key, s.o * all_depths * 4, [g, weight](void* to) {
          for (const Phase& phase : g.phases)
            pack_blocks(g, phase, weight, 0, phase.depth, 0, g.blocks,
                        static_cast<float*>(to) + phase.packed_at);
        }));
  }
  if (g.packed == nullptr && s.transposed) {
    // A piece of the weights is packed where it is used, unless several products use it.
    const bool is_large = s.o * all_depths > kMostPacked;
    g.packs_pieces = is_large && std::all_of(g.phases.begin(), g.phases.end(), [&](const Phase& p) {
                       return ceil_div(s.n, p.images) * ceil_div(p.s.out_size(), p.pixels) <= 1;
                     });
    g.packs_all = !g.packs_pieces;
  }
  g.panel_floats = kDepthPiece * ceil_div(columns, g.table->nr) * g.table->nr;
  g.product_floats = s.o * columns;
  const int64_t pack_floats = s.o * (g.packs_all ? all_depths : g.packs_pieces ? kDepthPiece : 0);
  c.set_workspace((g.panel_floats + g.product_floats + pack_floats) * 4);
  c.make_state(std::move(g));
  return {};
}

// Pixels of a product: all of several images, or some of one image.
struct Part {
  int64_t image, images;
  Pixels pixels;
  int64_t columns() const { return images * pixels.columns; }
};

// products[o, columns] = weight patches
void multiply(const RunContext& c, const ConvColumns& g, const Phase& phase, const Part& part,
              const float* packed, float* panels, float* products, float* own) {
  const GemmTable& table = *g.table;
  const float* x = c.in(0).as<float>();
  const float* weight = c.in(1).as<float>();
  const int64_t nr = table.nr, columns = part.columns(), depth = phase.depth;
  if (depth == 0) std::memset(products, 0, static_cast<size_t>(g.s.o * columns) * sizeof(float));
  for (int64_t k0 = 0; k0 < depth; k0 += kDepthPiece) {
    const int64_t piece = std::min(kDepthPiece, depth - k0);
    const float* images = x + part.image * g.s.c * g.s.in_size();
    c.parallel_for(piece, 64, [&](int64_t begin, int64_t end) {
      float row[kColumns + PaddedImages::kSlack];
      const auto spread = [&](int64_t p) {
        table.spread(columns, row, panels + p * nr, piece * nr);
      };
      if (part.pixels.columns == phase.s.out_size() && PaddedImages::serves(phase.s, part.images)) {
        PaddedImages padded(phase.s, part.images);
        for (int64_t p = begin; p < end; ++p) {
          padded.row(images, k0 + p, row);
          spread(p);
        }
        return;
      }
      for (int64_t p = begin; p < end; ++p) {
        patch_row(phase.s, images, k0 + p, part.pixels, row, part.images);
        spread(p);
      }
    });
    const int64_t block_work = piece * columns * table.mr;
    const int64_t grain = std::max<int64_t>(1, 100000 / block_work);
    c.parallel_for(g.blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        const int64_t first = g.first_row(index), rows = g.first_row(index + 1) - first;
        Block block = {.rows = static_cast<int>(rows), .k = piece, .y_row = columns, .add = k0 > 0};
        if (packed != nullptr || g.packs_pieces) {
          if (g.packs_pieces) pack_blocks(g, phase, weight, k0, piece, index, index + 1, own);
          block.a = g.packs_pieces ? own + first * piece
                                   : packed + phase.packed_at + first * depth + k0 * rows;
          block.a_row = 1;
          block.a_col = rows;
        } else {
          block.a = weight + first * depth + k0;
          block.a_row = depth;
          block.a_col = 1;
        }
        const float* panel = panels;
        for (int64_t j = 0; j < columns; j += nr, panel += piece * nr) {
          block.y = products + first * columns + j;
          table.block(block, static_cast<int>(std::min(nr, columns - j)), panel);
        }
      }
    });
  }
}

// Copies the pixels of a product to their positions in y.
void put_down(const RunContext& c, const ConvColumns& g, const Phase& phase, const Part& part,
              const float* products, float* y) {
  const ConvShape& s = g.s;
  const ConvShape::Spatial& out = phase.s.out;
  const bool steps = has_steps(s);
  const int64_t count = part.pixels.columns;
  c.parallel_for(
      s.o * part.images, std::max<int64_t>(1, 16384 / count), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t o = i / part.images, image = i % part.images;
          const float* from = products + (o * part.images + image) * count;
          float* to = y + ((part.image + image) * s.o + o) * s.out_size();
          if (!steps) {
            std::copy_n(from, count, to + part.pixels.first);
            continue;
          }
          int64_t column = part.pixels.first % out[2], row = part.pixels.first / out[2];
          for (int64_t done = 0; done < count; ++row, column = 0) {
            const int64_t width = std::min(out[2] - column, count - done);
            const int64_t at_z = phase.first_y[0] + row / out[1] * s.stride[0];
            const int64_t at_y = phase.first_y[1] + row % out[1] * s.stride[1];
            float* row_to =
                to + (at_z * s.out[1] + at_y) * s.out[2] + phase.first_y[2] + column * s.stride[2];
            for (int64_t k = 0; k < width; ++k) row_to[k * s.stride[2]] = from[done + k];
            done += width;
          }
        }
      });
}

void run(const RunContext& c) noexcept {
  const ConvColumns& g = c.state<ConvColumns>();
  const ConvShape& s = g.s;
  const float* weight = c.in(1).as<float>();
  float* y = c.out(0).as<float>();
  float* panels = c.workspace<float>();
  float* products = panels + g.panel_floats;
  float* own = products + g.product_floats;
  if (g.packs_all)
    c.parallel_for(g.blocks, 1, [&](int64_t begin, int64_t end) {
      for (const Phase& phase : g.phases)
        pack_blocks(g, phase, weight, 0, phase.depth, begin, end, own + phase.packed_at);
    });
  const float* packed = g.packs_all ? own : g.packed;
  for (const Phase& phase : g.phases)
    for (int64_t image = 0; image < s.n; image += phase.images)
      for (int64_t first = 0; first < phase.s.out_size(); first += phase.pixels) {
        const Part part = {image,
                           std::min(phase.images, s.n - image),
                           {first, std::min(phase.pixels, phase.s.out_size() - first)}};
        multiply(c, g, phase, part, packed, panels, products, own);
        put_down(c, g, phase, part, products, y);
      }
  const Epilogue all = {.activation = s.activation,
                        .row_bias = c.has(2) ? c.in(2).as<float>() : nullptr,
                        .residual = c.has(3) ? c.in(3).as<float>() : nullptr};
  if (all.empty()) return;
  const int64_t size = s.out_size();
  c.parallel_for(s.n * s.o, std::max<int64_t>(1, 16384 / size), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Epilogue e = all;
      if (e.row_bias) e.row_bias += i % s.o;
      if (e.residual) e.residual += i * size;
      g.table->finish(1, size, e, y + i * size, size);
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv", .name = "columns", .accepts = accepts, .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_columns() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
