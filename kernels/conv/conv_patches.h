// SPDX-License-Identifier: Apache-2.0
// Convolutions as matrix products. For each output pixel, row p of the patches holds the value that
// kernel element p multiplies, in the order [channel of the group, kernel...].
#pragma once

#include <algorithm>

#include "kernels/conv/conv_shape.h"

namespace hg::kernels {

// The output pixels [first, first + columns) of an image, row by row.
struct Pixels {
  int64_t first, columns;
};

// One row of the patches; several images follow each other. x points to the group's first channel
// of the first image. T is float, double or uint16_t, for the bits of halves.
template <class T>
void patch_row(const ConvShape& s, const T* x, int64_t p, const Pixels& pixels, T* to,
               int64_t images = 1);

// Small whole images surrounded by zeros, one channel after another. Rows of the patches are copied
// from them without checks of the borders. For two spatial dims and strides of 1.
class PaddedImages {
 public:
  static constexpr int64_t kSlack = 4;  // floats that row() may write beyond its end
  static bool serves(const ConvShape& s, int64_t images);
  PaddedImages(const ConvShape& s, int64_t images);
  // As patch_row for all pixels; consecutive rows are the fastest.
  void row(const float* x, int64_t p, float* to);

 private:
  static constexpr int64_t kFloats = 4096;
  void fill(const float* x, int64_t channel);
  void seek(int64_t p);
  const ConvShape& s_;
  int64_t images_, channel_ = -1, height_, width_, top_, left_;
  int64_t next_ = 0, next_channel_ = 0, next_y_ = 0, next_x_ = 0;  // the row after the last one
  float data_[kFloats + kSlack];
};

// Whether the kernel element `tap` reads x, not only zeros, for one of these pixels.
bool meets(const ConvShape& s, int64_t tap, const Pixels& pixels);
// Whether many kernel elements read only zeros around x, as with a large dilation. Iterating over
// kernel elements and skipping those is then faster.
bool skips_taps(const ConvShape& s);

}  // namespace hg::kernels
