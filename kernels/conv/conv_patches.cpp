// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/conv_patches.h"

#include <algorithm>
#include <cstring>

#include "kernels/ceil_div.h"

namespace hg::kernels {
namespace {

// Rows are short: the checks of the library's copy function would take longer than copying.
template <class T>
void copy_short(const T* from, int64_t count, T* to) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) std::memcpy(to + i, from + i, 4 * sizeof(T));
  for (; i < count; ++i) to[i] = from[i];
}
template <class T>
void clear_short(int64_t count, T* to) {
  constexpr T kZeros[4] = {};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) std::memcpy(to + i, kZeros, 4 * sizeof(T));
  for (; i < count; ++i) to[i] = 0;
}

// Transposed with steps: output column = input column stride + shift.
template <class T>
void spread_row(const ConvShape& s, const T* from, int64_t shift, int64_t x0, int64_t x1, T* to) {
  const int64_t stride = s.stride[2];
  clear_short(x1 - x0, to);
  const int64_t low = std::max<int64_t>(0, ceil_div(x0 - shift, stride));
  const int64_t high = std::min(s.in[2], ceil_div(x1 - shift, stride));
  for (int64_t i = low; i < high; ++i) to[i * stride + shift - x0] = from[i];
}

// Whether each output pixel reads the same pixel of x.
bool keeps_pixels(const ConvShape& s) {
  constexpr ConvShape::Spatial kNone = {0, 0, 0}, kOnes = {1, 1, 1};
  return s.kernel == kOnes && s.stride == kOnes && s.padding == kNone && s.in == s.out;
}

// Padding before dim `d` if the convolution is written as one that is not transposed.
int64_t padding_before(const ConvShape& s, size_t d) {
  return s.transposed ? (s.kernel[d] - 1) * s.dilation[d] - s.padding[d] : s.padding[d];
}
int64_t padded_size(const ConvShape& s, size_t d) {
  return s.out[d] + (s.kernel[d] - 1) * s.dilation[d];
}

}  // namespace

bool meets(const ConvShape& s, int64_t tap, const Pixels& pixels) {
  const ConvShape::Spatial k = {tap / (s.kernel[1] * s.kernel[2]), tap / s.kernel[2] % s.kernel[1],
                                tap % s.kernel[2]};
  bool has_column = false;
  for (int64_t x = 0; x < s.out[2] && !has_column; ++x) has_column = met(s, 2, x, k[2]) >= 0;
  const int64_t last = (pixels.first + pixels.columns - 1) / s.out[2];
  for (int64_t row = pixels.first / s.out[2]; has_column && row <= last; ++row)
    if (met(s, 0, row / s.out[1], k[0]) >= 0 && met(s, 1, row % s.out[1], k[1]) >= 0) return true;
  return false;
}

bool skips_taps(const ConvShape& s) {
  constexpr int64_t kLeastChannels = 32;  // of a product of one tap
  if (s.transposed || s.group_c() < kLeastChannels || s.out_size() == 0) return false;
  double part = 1;
  for (size_t d = 0; d < 3; ++d) {
    int64_t count = 0;
    for (int64_t k = 0; k < s.kernel[d]; ++k)
      for (int64_t at = 0; at < s.out[d]; ++at) count += met(s, d, at, k) >= 0;
    part *= static_cast<double>(count) / static_cast<double>(s.kernel[d] * s.out[d]);
  }
  return part < 0.75;
}

template <class T>
void patch_row(const ConvShape& s, const T* x, int64_t p, const Pixels& pixels, T* to,
               int64_t images) {
  const int64_t kx = p % s.kernel[2], ky = p / s.kernel[2] % s.kernel[1];
  const int64_t kz = p / (s.kernel[1] * s.kernel[2]) % s.kernel[0];
  const T* plane = x + p / s.kernel_size() * s.in_size();
  if (keeps_pixels(s)) {
    for (int64_t image = 0; image < images; ++image, plane += s.c * s.in_size())
      to = std::copy_n(plane + pixels.first, pixels.columns, to);
    return;
  }
  const int64_t width = s.out[2], shift = kx * s.dilation[2] - s.padding[2];
  const bool spreads = s.transposed && s.stride[2] > 1;
  // Otherwise the input column is output column step + start, and [low, high) are inside.
  const int64_t step = s.transposed ? 1 : s.stride[2], start = s.transposed ? -shift : shift;
  const int64_t low = std::clamp<int64_t>(ceil_div(-start, step), 0, width);
  const int64_t high = std::clamp(ceil_div(s.in[2] - start, step), low, width);
  const int64_t row = pixels.first / width;
  const int64_t first_x = pixels.first % width, first_y = row % s.out[1], first_z = row / s.out[1];
  for (int64_t image = 0; image < images; ++image, plane += s.c * s.in_size()) {
    int64_t x0 = first_x, y = first_y, z = first_z;
    for (int64_t left = pixels.columns; left > 0;) {
      const int64_t x1 = std::min(width, x0 + left), count = x1 - x0;
      const int64_t in_z = met(s, 0, z, kz), in_y = met(s, 1, y, ky);
      if (in_z < 0 || in_y < 0) {
        clear_short(count, to);
      } else {
        const T* from = plane + (in_z * s.in[1] + in_y) * s.in[2];
        if (spreads) {
          spread_row(s, from, shift, x0, x1, to);
        } else {
          const int64_t a = std::clamp(low, x0, x1), b = std::clamp(high, a, x1);
          clear_short(a - x0, to);
          if (step == 1)
            copy_short(from + a + start, b - a, to + (a - x0));
          else
            for (int64_t i = a; i < b; ++i) to[i - x0] = from[i * step + start];
          clear_short(x1 - b, to + (b - x0));
        }
      }
      to += count;
      left -= count;
      x0 = 0;
      if (++y == s.out[1]) {
        y = 0;
        ++z;
      }
    }
  }
}

template void patch_row<float>(const ConvShape&, const float*, int64_t, const Pixels&, float*,
                               int64_t);
template void patch_row<double>(const ConvShape&, const double*, int64_t, const Pixels&, double*,
                                int64_t);
template void patch_row<uint16_t>(const ConvShape&, const uint16_t*, int64_t, const Pixels&,
                                  uint16_t*, int64_t);

bool PaddedImages::serves(const ConvShape& s, int64_t images) {
  return s.stride == ConvShape::Spatial{1, 1, 1} && s.kernel[0] == 1 && s.in[0] == 1 &&
         s.out[0] == 1 && s.padding[0] == 0 && padding_before(s, 1) >= 0 &&
         padding_before(s, 2) >= 0 && images * padded_size(s, 1) * padded_size(s, 2) <= kFloats;
}

PaddedImages::PaddedImages(const ConvShape& s, int64_t images)
    : s_(s),
      images_(images),
      height_(padded_size(s, 1)),
      width_(padded_size(s, 2)),
      top_(padding_before(s, 1)),
      left_(padding_before(s, 2)) {
  std::fill_n(data_, images * height_ * width_ + kSlack, 0.0f);
}

// Omits elements that are further right or below than any pixel of y reads.
void PaddedImages::fill(const float* x, int64_t channel) {
  channel_ = channel;
  const int64_t rows = std::min(s_.in[1], height_ - top_);
  const int64_t columns = std::min(s_.in[2], width_ - left_);
  const float* image = x + channel * s_.in_size();
  float* to = data_ + top_ * width_ + left_;
  for (int64_t i = 0; i < images_; ++i, image += s_.c * s_.in_size(), to += height_ * width_)
    for (int64_t y = 0; y < rows; ++y) copy_short(image + y * s_.in[2], columns, to + y * width_);
}

void PaddedImages::seek(int64_t p) {
  const int64_t taps = s_.kernel_size();
  next_ = p;
  next_channel_ = p / taps;
  next_y_ = p % taps / s_.kernel[2];
  next_x_ = p % s_.kernel[2];
}

void PaddedImages::row(const float* x, int64_t p, float* to) {
  if (p != next_) seek(p);
  if (next_channel_ != channel_) fill(x, next_channel_);
  const int64_t ky = s_.transposed ? s_.kernel[1] - 1 - next_y_ : next_y_;
  const int64_t kx = s_.transposed ? s_.kernel[2] - 1 - next_x_ : next_x_;
  ++next_;
  if (++next_x_ == s_.kernel[2]) {
    next_x_ = 0;
    if (++next_y_ == s_.kernel[1]) {
      next_y_ = 0;
      ++next_channel_;
    }
  }
  const int64_t wide = s_.out[2];
  const float* image = data_ + ky * s_.dilation[1] * width_ + kx * s_.dilation[2];
  for (int64_t i = 0; i < images_; ++i, image += height_ * width_) {
    const float* from = image;
    for (int64_t y = 0; y < s_.out[1]; ++y, from += width_, to += wide)
      for (int64_t j = 0; j < wide; j += kSlack) std::memcpy(to + j, from + j, 16);
  }
}

}  // namespace hg::kernels
