// SPDX-License-Identifier: Apache-2.0
// Floats as levels times scales, and the nodes that make floats of them again: both sides of the
// same sum, to the bit.
#pragma once

#include <string_view>

#include "hg/graph.h"

namespace hg {

// How a weight is cut into blocks that have a scale each: so many elements along each dim, the last
// ones fewer where they do not divide it. All elements, or one, along each dim but one at most.
struct Blocks {
  Sizes shape;  // of the weight
  Sizes sizes;  // of a block

  int64_t along(int d) const { return (shape[d] + sizes[d] - 1) / sizes[d]; }
  int64_t count() const;
  int split() const;  // the dim of which a block holds some elements, neither one nor all; or -1
  // Of the tensor of scales: the blocks along each dim, and a 1 behind that of `split`.
  Sizes scales() const;
  // Of the tensor of levels: of 4 bits, a byte of it holds two along the dim `packed`, one of the
  // first half in its low bits and one of the second half in its high ones.
  Sizes levels(int bits) const;
  int packed() const;  // the first dim of an even size, or else the largest one
};

// Writes levels of 8 or 4 bits, element by element, to a tensor of the shape Blocks::levels() that
// holds zeros.
class LevelWriter {
 public:
  LevelWriter(const Blocks& blocks, int bits, const Tensor& levels);
  void put(int64_t element, int level) const {
    if (bits_ == 8) {
      bytes_[element] = static_cast<uint8_t>(level);
      return;
    }
    const int64_t row = element / inner_, i = row % size_;
    const bool is_low = i < half_;
    const int64_t to = row / size_ * half_ + (is_low ? i : i - half_);
    uint8_t& byte = bytes_[to * inner_ + element % inner_];
    byte = static_cast<uint8_t>(byte | (level & 15) << (is_low ? 0 : 4));
  }

 private:
  uint8_t* bytes_;
  int bits_;
  int64_t inner_, size_, half_;  // of the dim of which a byte holds two
};

struct Rounded {
  TensorData levels;  // i8
  TensorData scales;  // f32; f64 for weights of f64
  double error = 0;   // QuantizedWeight::error
};

// Fails with invalid_argument where an element is not finite; `name` is for messages.
Result<Rounded> round_to_levels(std::string_view name, const Tensor& weight, const Blocks& blocks,
                                int bits);

// level * scale + offset of each element, of the weight's dtype and shape. `offsets` has the shape
// of the scales, or is empty. `four` is that number as i8, if levels have 4 bits.
Value widened(const Value& levels, const Value& scales, const Value& offsets, const Value& four,
              const Blocks& blocks, int bits, DType dtype);

}  // namespace hg
