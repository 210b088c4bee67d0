// SPDX-License-Identifier: Apache-2.0
// The patches of a convolution with channels last as rows of a RowProduct: of bytes or of bf16. If
// the channels fill whole steps, patches are read where they are: in x, or in a copy with padding,
// in which pixels that a stride reads together are adjacent. Otherwise they are copied, a row for
// each pixel of y.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/conv/column_parts.h"
#include "kernels/conv/conv_shape.h"
#include "kernels/conv/strided_lines.h"
#include "kernels/gemm/tiles.h"
#include "kernels/simd/row_product.h"
#include "kernels/simd/tile_side.h"

namespace hg::kernels {

struct PatchRows : ColumnParts {
  static constexpr int64_t kStep = RowProduct::kStep, kBlock = RowProduct::kColumns;
  static constexpr int64_t kMaxPlaces = 256;       // of a tile
  static constexpr int64_t kPatchBytes = 1 << 19;  // of a tile, in the second-level cache
  static constexpr int64_t kCopyGrain = 1 << 15;   // bytes that are copied in one task
  static constexpr int64_t kChunk = 16;            // bytes that are copied together
  static constexpr int64_t kFew = 4;               // channels of an image that is not channels-last

  ConvShape s;
  bool entry = false;     // x is [n, c, h, w] with at most kFew channels; images have kFew
  bool plain = false;     // the image is x itself
  bool direct = false;    // rows are read where they are
  bool is_float = false;  // a copied row ends with zeros: others times a weight of 0 may be NaN
  // A copied image is `line_count` lines of `pitch` pixels, for each remainder of the columns'
  // stride if rows are read there.
  StridedLines by_y, by_x;
  int64_t pixel = 0, pitch = 0, line_count = 0;  // bytes of a pixel
  int64_t depth = 0;                             // bytes of a row, in whole steps
  int64_t last = 0;                              // of its last step, without missing words
  std::vector<int64_t> offset;                   // of each step of a row
  int64_t lanes = 1;

  // Of a line of y. If rows are read where they are, there are some between lines.
  int64_t places_of_line() const { return direct ? pitch : s.out[2]; }
  int64_t places() const {
    return s.out_size() == 0 ? 0 : (s.out[1] - 1) * places_of_line() + s.out[2];
  }
  int64_t place_at(int64_t index) const { return first_column(index, places(), kBlock); }
  int64_t image_bytes() const {
    return plain ? 0 : line_count * pitch * pixel * (direct ? s.stride[2] : 1) + kChunk;
  }
  int64_t slot_bytes() const { return direct ? 0 : whole_tiles(tile) * depth + kChunk; }
  int64_t blocks() const { return ceil_div(s.o, kBlock); }
  int64_t weight_bytes() const { return blocks() * kBlock * depth; }

  // For numbers of `size` bytes. reads_x: x has this type.
  void lay_out(const PrepareContext& c, int64_t size, bool reads_x) {
    pixel = (entry ? kFew : s.c) * size;
    const bool is_point = s.kernel_size() == 1 && s.stride == ConvShape::Spatial{1, 1, 1} &&
                          s.padding == ConvShape::Spatial{0, 0, 0} && s.in == s.out;
    plain = is_point && !entry && reads_x;
    by_y = StridedLines(s, 1);
    by_x = StridedLines(s, 2);
    direct = pixel % kStep == 0;
    pitch = by_x.each;
    direct = direct && places() >= kTileSide;  // tiles read 16 places
    line_count = by_y.count();
    if (!direct) {
      pitch = (s.out[2] - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1;
      line_count = (s.out[1] - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1;
    }
    const int64_t used = s.kernel_size() * pixel;
    depth = ceil_div(used, kStep) * kStep;
    last = kStep - (depth - used) / 4 * 4;
    offset.clear();
    for (int64_t k = 0; k < depth; k += kStep) offset.push_back(direct ? offset_of(k) : k);
    const int64_t fitting = direct ? kMaxPlaces : kPatchBytes / std::max<int64_t>(1, depth);
    divide({.columns = places(),
            .rows = blocks(),
            .images = s.n,
            .products = s.out_size() * s.o * depth / size,
            .most_panels = std::clamp<int64_t>(fitting / kBlock, 1, kMaxPlaces / kBlock),
            .mr = 1,
            .nr = static_cast<int>(kBlock),
            .threads = c.threads()});
    lanes = tile_lanes(c, s.n * tiles * parts());
  }

  // Copies the images of x, unless it is read itself; all bytes of the padding are `zero`.
  // copy(image, pixel, count, to) copies neighboring pixels of an image of x.
  template <class Copy>
  void copy_images(const RunContext& c, uint8_t zero, uint8_t* images, const Copy& copy) const {
    if (plain) return;
    const int64_t bytes = 1 + pitch * pixel * s.stride[2];
    c.parallel_for(s.n * line_count, std::max<int64_t>(1, kCopyGrain / bytes),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t image = i / line_count;
                       copy_line(i % line_count, zero, images + image * image_bytes(),
                                 [&](int64_t first, int64_t count, uint8_t* to) {
                                   copy(image, first, count, to);
                                 });
                     }
                   });
  }

  // Calls multiply(r, o, at) for each block of output channels in each tile of the images: the
  // first of these channels, and the element of y where the block begins. Slots of for_tiles() are
  // at the beginning of the workspace.
  template <class Multiply>
  void for_blocks(const RunContext& c, const uint8_t* images, const void* weights,
                  const Multiply& multiply) const {
    const int64_t y_size = size_of(c.out(0).dtype), block_bytes = kBlock * depth;
    for_tiles(c, s.n * tiles * parts(), lanes, slot_bytes(), [&](int64_t task, float* slot) {
      const int64_t part = task % parts(), index = task / parts(), image = index / tiles;
      const uint8_t* const from = plain ? c.in(0).as<uint8_t>() + image * s.in_size() * pixel
                                        : images + image * image_bytes();
      int64_t first = image * s.out_size();
      RowProduct r = rows_of(from, index % tiles, reinterpret_cast<uint8_t*>(slot), first);
      r.y_row = s.o * y_size;
      const int64_t end = std::min(s.o, first_o[part + 1] * kBlock);
      for (int64_t o = first_o[part] * kBlock; o < end; o += kBlock) {
        const int64_t at = first * s.o + o;
        r.weights = static_cast<const int8_t*>(weights) + o * depth;
        r.columns = static_cast<int>(std::min(kBlock, end - o));
        r.next = r.weights + block_bytes;
        r.next_bytes = o + kBlock < end ? block_bytes : 0;
        r.y = c.out(0).as<char>() + at * y_size;
        multiply(r, o, at);
      }
    });
  }

 private:
  // Line `y` of an image with its padding. copy(first pixel, count, to)
  template <class Copy>
  void copy_line(int64_t y, uint8_t zero, uint8_t* image, const Copy& copy) const {
    const int64_t from_y = y - s.padding[1];
    const bool is_inside = from_y >= 0 && from_y < s.in[1];
    const int64_t step = direct ? s.stride[2] : 1;
    if (direct && !by_y.reads(y)) return;
    for (int64_t phase = 0; phase < step; ++phase) {
      if (direct && !by_x.reads(phase)) continue;
      const int64_t line = direct ? phase * line_count + by_y.line_of(y) : y;
      uint8_t* const to = image + line * pitch * pixel;
      // The pixels [first, end) are inside the image.
      const int64_t begin = s.padding[2] - phase;
      const auto bound = [&](int64_t x) {
        return std::min(ceil_div(std::max<int64_t>(0, x), step), pitch);
      };
      const int64_t first = bound(begin);
      const int64_t end = is_inside ? std::max(first, bound(begin + s.in[2])) : first;
      std::memset(to, zero, static_cast<size_t>(first * pixel));
      if (step == 1 && end > first)
        copy(from_y * s.in[2] + first - begin, end - first, to + first * pixel);
      for (int64_t i = first; i < end && step > 1; ++i)
        copy(from_y * s.in[2] + i * step - begin, int64_t{1}, to + i * pixel);
      std::memset(to + end * pixel, zero, static_cast<size_t>((pitch - end) * pixel));
    }
  }

  // The rows of the pixels [first, first + count) of y.
  void copy_patches(const uint8_t* image, int64_t first, int64_t count, uint8_t* to) const {
    // Pixels that adjacent elements of a kernel's row read are adjacent, unless it is dilated.
    const bool is_dense = s.dilation[2] == 1;
    const int64_t piece = is_dense ? s.kernel[2] * pixel : pixel;
    const int64_t pieces = is_dense ? 1 : s.kernel[2];
    const auto copy_all = [&](const auto& copy) {
      int64_t line = first / s.out[2], column = first % s.out[2];
      for (int64_t i = 0; i < count; ++i, to += depth) {
        const uint8_t* from = image + (line * s.stride[1] * pitch + column * s.stride[2]) * pixel;
        uint8_t* at = to;
        for (int64_t ky = 0; ky < s.kernel[1]; ++ky, from += s.dilation[1] * pitch * pixel)
          for (int64_t kx = 0; kx < pieces; ++kx, at += piece)
            copy(at, from + kx * s.dilation[2] * pixel);
        if (is_float) std::memset(at, 0, static_cast<size_t>(to + depth - at));
        if (++column == s.out[2]) {
          column = 0;
          ++line;
        }
      }
    };
    // What short pieces write beyond their end is overwritten. x itself ends without slack.
    const auto copy_chunks = [&]<int kChunks>(std::integral_constant<int, kChunks>) {
      copy_all([](uint8_t* at, const uint8_t* from) {
        for (int i = 0; i < kChunks * kChunk; i += kChunk) std::memcpy(at + i, from + i, kChunk);
      });
    };
    switch (plain ? 0 : ceil_div(piece, kChunk)) {
      case 1:
        return copy_chunks(std::integral_constant<int, 1>());
      case 2:
        return copy_chunks(std::integral_constant<int, 2>());
      case 4:
        return copy_chunks(std::integral_constant<int, 4>());
      default:
        return copy_all([&](uint8_t* at, const uint8_t* from) {
          std::memcpy(at, from, static_cast<size_t>(piece));
        });
    }
  }

  // For a tile of image's places: what to multiply, and the first pixel of its results.
  RowProduct rows_of(const uint8_t* image, int64_t tile_index, uint8_t* slot,
                     int64_t& pixel_of_y) const {
    RowProduct r = {.first = place_at(tile_index),
                    .pitch = places_of_line(),
                    .width = s.out[2],
                    .x = image,
                    .x_row = pixel,
                    .steps = depth / kStep,
                    .offset = offset.data(),
                    .last = last};
    r.count = place_at(tile_index + 1) - r.first;
    if (direct) return r;
    copy_patches(image, r.first, r.count, slot);
    pixel_of_y += r.first;
    r.x = slot;
    r.x_row = depth;
    r.first = 0;
    r.pitch = r.width = r.count;
    return r;
  }

  int64_t offset_of(int64_t k) const {
    const int64_t tap = k / pixel, x = tap % s.kernel[2] * s.dilation[2];
    const int64_t line = by_y.line_of(tap / s.kernel[2] * s.dilation[1]);
    return ((x % s.stride[2] * line_count + line) * pitch + x / s.stride[2]) * pixel + k % pixel;
  }
};

// Calls f(tap, row, column) for each element of the kernel that meets x at a pixel of y, counted
// over all images.
template <class F>
void for_met_taps(const ConvShape& s, int64_t pixel, const F& f) {
  for (int64_t tap = 0; tap < s.kernel_size(); ++tap) {
    const int64_t row = met(s, 1, pixel / s.out[2] % s.out[1], tap / s.kernel[2]);
    const int64_t column = met(s, 2, pixel % s.out[2], tap % s.kernel[2]);
    if (row >= 0 && column >= 0) f(tap, row, column);
  }
}

}  // namespace hg::kernels
