// SPDX-License-Identifier: Apache-2.0
// Image blocks as columns, and the sum of such columns as an image.
#include <algorithm>

#include "hg/kernel.h"
#include "kernels/ceil_div.h"
#include "kernels/element.h"
#include "kernels/simd/half_simd.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct BlockState {
  int64_t channels = 1, height = 1, width = 1;  // of the image
  int64_t rows = 1, columns = 1;                // blocks
  int64_t kernel[2], dilation[2], padding[2], stride[2];
  int64_t planes = 1;
};

void read_blocks(PrepareContext& c, const Sizes& image) {
  BlockState s;
  s.planes = image[0] * image[1];
  s.channels = image[1];
  s.height = image[2];
  s.width = image[3];
  auto read = [&](std::string_view name, int64_t* to) {
    const Sizes listed = c.attrs().integers(name);
    to[0] = listed[0];
    to[1] = listed[listed.rank() - 1];
  };
  read("kernel_size", s.kernel);
  read("dilation", s.dilation);
  read("padding", s.padding);
  read("stride", s.stride);
  s.rows = (s.height + 2 * s.padding[0] - s.dilation[0] * (s.kernel[0] - 1) - 1) / s.stride[0] + 1;
  s.columns =
      (s.width + 2 * s.padding[1] - s.dilation[1] * (s.kernel[1] - 1) - 1) / s.stride[1] + 1;
  c.make_state(s);
}
Status im2col_prepare(PrepareContext& c) {
  read_blocks(c, c.in(0).shape);
  return {};
}
Status col2im_prepare(PrepareContext& c) {
  read_blocks(c, c.out(0).shape);
  return {};
}

// Of the blocks that begin at `start`, `start` + stride, ... along a line, blocks [first, last)
// begin in [begin, end).
struct Inside {
  int64_t first = 0, last = 0;
};
Inside blocks_inside(const BlockState& s, int64_t start, int64_t begin, int64_t end) {
  const auto before = [&](int64_t place) {
    return std::clamp<int64_t>(ceil_div(place - start, s.stride[1]), 0, s.columns);
  };
  return {before(begin), before(end)};
}

void im2col_run(const RunContext& c) noexcept {
  const BlockState& s = c.state<BlockState>();
  const int64_t area = s.kernel[0] * s.kernel[1], blocks = s.rows * s.columns;
  for_float(c.out(0).dtype, [&]<class T>() {
    c.parallel_for(s.planes, grain_of(area * blocks), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const T* x = c.in(0).as<T>() + plane * s.height * s.width;
        T* y = c.out(0).as<T>() + plane * area * blocks;
        for (int64_t k = 0; k < area; ++k) {
          const int64_t start = k % s.kernel[1] * s.dilation[1] - s.padding[1];
          const Inside inside = blocks_inside(s, start, 0, s.width);
          for (int64_t r = 0; r < s.rows; ++r, y += s.columns) {
            const int64_t h = r * s.stride[0] - s.padding[0] + k / s.kernel[1] * s.dilation[0];
            if (h < 0 || h >= s.height) {
              std::fill_n(y, s.columns, T());
              continue;
            }
            const int64_t from = h * s.width + start;
            std::fill(y, y + inside.first, T());
            if (s.stride[1] == 1)
              std::copy_n(x + from + inside.first, inside.last - inside.first, y + inside.first);
            else
              for (int64_t q = inside.first; q < inside.last; ++q) y[q] = x[from + q * s.stride[1]];
            std::fill(y + inside.last, y + s.columns, T());
          }
        }
      }
    });
  });
}

constexpr int64_t kPart = 512;  // of a row of pixels: its sums stay in cache

// Adds to sums[w - begin] the entries of blocks that contain the pixels w of row h, one block entry
// after another.
template <class T>
void add_blocks(const BlockState& s, const T* x, int64_t h, int64_t begin, int64_t end,
                Wide<T>* sums) {
  for (int64_t kh = 0; kh < s.kernel[0]; ++kh) {
    const int64_t at_h = h + s.padding[0] - kh * s.dilation[0];
    if (at_h < 0 || at_h % s.stride[0] != 0 || at_h / s.stride[0] >= s.rows) continue;
    for (int64_t kw = 0; kw < s.kernel[1]; ++kw) {
      const T* row = x + ((kh * s.kernel[1] + kw) * s.rows + at_h / s.stride[0]) * s.columns;
      const int64_t start = kw * s.dilation[1] - s.padding[1];
      const Inside inside = blocks_inside(s, start, begin, end);
      const int64_t count = inside.last - inside.first;
      if (count <= 0) continue;
      const Wide<T>* from = nullptr;
      [[maybe_unused]] Wide<T> wide[kPart];
      if constexpr (kIsHalf<T>) {
        half_table().widen(count, row + inside.first, wide);
        from = wide;
      } else {
        from = row + inside.first;
      }
      Wide<T>* const to = sums + start - begin + inside.first * s.stride[1];
      if (s.stride[1] == 1)
        for (int64_t q = 0; q < count; ++q) to[q] += from[q];
      else
        for (int64_t q = 0; q < count; ++q) to[q * s.stride[1]] += from[q];
    }
  }
}

void col2im_run(const RunContext& c) noexcept {
  const BlockState& s = c.state<BlockState>();
  const int64_t area = s.kernel[0] * s.kernel[1], blocks = s.rows * s.columns;
  for_float(c.out(0).dtype, [&]<class T>() {
    c.parallel_for(s.planes, grain_of(area * blocks), [&](int64_t begin, int64_t end) {
      Wide<T> sums[kPart];
      for (int64_t row = begin * s.height; row < end * s.height; ++row) {
        const T* x = c.in(0).as<T>() + row / s.height * area * blocks;
        T* y = c.out(0).as<T>() + row * s.width;
        for (int64_t first = 0; first < s.width; first += kPart) {
          const int64_t last = std::min(s.width, first + kPart);
          std::fill_n(sums, last - first, Wide<T>(0));
          add_blocks(s, x, row % s.height, first, last, sums);
          if constexpr (kIsHalf<T>)
            half_table().narrow(last - first, sums, y + first);
          else
            std::copy_n(sums, last - first, y + first);
        }
      }
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "im2col", .name = "rows", .prepare = im2col_prepare, .run = im2col_run},
    {.op = "col2im", .name = "gather", .prepare = col2im_prepare, .run = col2im_run},
};

}  // namespace

std::span<const KernelDef> image_blocks() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
