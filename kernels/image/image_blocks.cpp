// SPDX-License-Identifier: Apache-2.0
// Blocks of images as columns, and the sum of such columns as an image.
#include "hg/kernel.h"
#include "kernels/element.h"
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

void im2col_run(const RunContext& c) noexcept {
  const BlockState& s = c.state<BlockState>();
  const int64_t area = s.kernel[0] * s.kernel[1], blocks = s.rows * s.columns;
  for_float(c.out(0).dtype, [&]<class T>() {
    c.parallel_for(s.planes, grain_of(area * blocks), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const T* x = c.in(0).as<T>() + plane * s.height * s.width;
        T* y = c.out(0).as<T>() + plane * area * blocks;
        for (int64_t k = 0; k < area; ++k)
          for (int64_t r = 0; r < s.rows; ++r) {
            const int64_t h = r * s.stride[0] - s.padding[0] + k / s.kernel[1] * s.dilation[0];
            int64_t w = k % s.kernel[1] * s.dilation[1] - s.padding[1];
            const bool inside = h >= 0 && h < s.height;
            for (int64_t q = 0; q < s.columns; ++q, w += s.stride[1])
              *y++ = inside && w >= 0 && w < s.width ? x[h * s.width + w] : T();
          }
      }
    });
  });
}

// Each pixel gathers from the blocks that cover it.
void col2im_run(const RunContext& c) noexcept {
  const BlockState& s = c.state<BlockState>();
  const int64_t area = s.kernel[0] * s.kernel[1], blocks = s.rows * s.columns;
  for_float(c.out(0).dtype, [&]<class T>() {
    using W = Wide<T>;
    c.parallel_for(s.planes, grain_of(area * blocks), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const T* x = c.in(0).as<T>() + plane * area * blocks;
        T* y = c.out(0).as<T>() + plane * s.height * s.width;
        for (int64_t h = 0; h < s.height; ++h)
          for (int64_t w = 0; w < s.width; ++w) {
            W sum = 0;
            for (int64_t kh = 0; kh < s.kernel[0]; ++kh) {
              const int64_t at_h = h + s.padding[0] - kh * s.dilation[0];
              if (at_h < 0 || at_h % s.stride[0] != 0 || at_h / s.stride[0] >= s.rows) continue;
              for (int64_t kw = 0; kw < s.kernel[1]; ++kw) {
                const int64_t at_w = w + s.padding[1] - kw * s.dilation[1];
                if (at_w < 0 || at_w % s.stride[1] != 0 || at_w / s.stride[1] >= s.columns)
                  continue;
                sum += load(x + (kh * s.kernel[1] + kw) * blocks + at_h / s.stride[0] * s.columns +
                            at_w / s.stride[1]);
              }
            }
            store(y + h * s.width + w, sum);
          }
      }
    });
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "im2col",
     .device = Device::cpu,
     .name = "rows",
     .prepare = im2col_prepare,
     .run = im2col_run},
    {.op = "col2im",
     .device = Device::cpu,
     .name = "gather",
     .prepare = col2im_prepare,
     .run = col2im_run},
};

}  // namespace

std::span<const KernelDef> image_blocks() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
