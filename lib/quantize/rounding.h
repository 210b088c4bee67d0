// SPDX-License-Identifier: Apache-2.0
// Quantizes floats to levels and scales, and builds the nodes that dequantize them. Both sides
// compute the same numbers, bit by bit.
#pragma once

#include <string_view>

#include "hg/graph.h"

namespace hg {

// How a weight is divided into blocks with one scale each: the number of elements along each dim;
// the last block may have fewer. At most one dim has a number other than one or all elements.
struct Blocks {
  Sizes shape;  // of the weight
  Sizes sizes;  // of a block

  int64_t along(int d) const { return (shape[d] + sizes[d] - 1) / sizes[d]; }
  int64_t count() const;
  int split() const;  // the dim along which a block holds some elements, not one or all; or -1
  // Shape of the scales: the blocks along each dim, with a 1 after that of `split`.
  Sizes scales() const;
  // Shape of the levels. For 4 bits, a byte holds two elements along the dim `packed`: one of the
  // first half in its low bits, one of the second half in its high bits.
  Sizes levels(int bits) const;
  int packed() const;  // the first dim of even size, otherwise the largest one
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

// Fails with invalid_argument if an element is not finite; `name` is for messages.
Result<Rounded> round_to_levels(std::string_view name, const Tensor& weight, const Blocks& blocks,
                                int bits);

// The dequantized numbers, level * scale + offset, in the weight's dtype and shape. `offsets` has the
// shape of the scales, or is empty. `four` is the constant 4 as i8, for 4-bit levels.
Value widened(const Value& levels, const Value& scales, const Value& offsets, const Value& four,
              const Blocks& blocks, int bits, DType dtype);

}  // namespace hg
