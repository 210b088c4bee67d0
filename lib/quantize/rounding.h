// SPDX-License-Identifier: Apache-2.0
// Quantizes floats to levels and scales, and builds the nodes that dequantize them. Both sides
// compute the same numbers, bit by bit.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

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

// The block of each element.
class BlockPlaces {
 public:
  explicit BlockPlaces(const Blocks& blocks);

  // Calls take(element, block) for all elements in order.
  template <class Take>
  void each(Take&& take) const {
    const int last = shape_.rank() - 1;
    const int64_t columns = shape_[last], rows = columns == 0 ? 0 : shape_.count() / columns;
    const int64_t* const column = places_[last].data();
    Sizes at = shape_;
    for (int d = 0; d <= last; ++d) at[d] = 0;
    for (int64_t row = 0; row < rows; ++row) {
      int64_t base = 0;
      for (int d = 0; d < last; ++d) base += places_[d][static_cast<size_t>(at[d])];
      for (int64_t i = 0; i < columns; ++i) take(row * columns + i, base + column[i]);
      for (int d = last; d-- > 0 && ++at[d] == shape_[d];) at[d] = 0;
    }
  }

 private:
  Sizes shape_;
  std::vector<int64_t> places_[kMaxRank];
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
  int bits = 8;
  TensorData levels;  // i8; with 16 bits the numbers themselves, f16
  TensorData scales;  // f32; f64 for weights of f64; empty with 16 bits
  double error = 0;   // QuantizedWeight::error
  int64_t bytes() const { return levels.tensor.bytes() + scales.tensor.bytes(); }
};

// Rounds to the nearest levels. `searches`: of the scales with the least squared error. Fails with
// invalid_argument if an element is not finite; `name` is for messages.
Result<Rounded> round_to_levels(std::string_view name, const Tensor& weight, const Blocks& blocks,
                                int bits, bool searches = false);

// The scale of each block, as a number of the dtype of Rounded::scales. `importance` has a factor
// of the squared error for each element, or is empty. Fails as round_to_levels().
Result<std::vector<double>> select_scales(std::string_view name, const Tensor& weight,
                                          const Blocks& blocks, int bits, bool searches,
                                          std::span<const float> importance);
// The block of each element.
std::vector<int64_t> blocks_of_elements(const Blocks& blocks);
int level_near(double ratio, int bits);  // in the range that select_scales() searches
// The number that a level represents in a weight of the dtype.
double dequantized(DType dtype, double level, double scale);
// `levels` are those of the elements in order.
Result<Rounded> with_levels(const Tensor& weight, const Blocks& blocks, int bits,
                            std::span<const double> scales, std::span<const int8_t> levels);

// The dequantized numbers, level * scale + offset, in the weight's dtype and shape; with 16 bits
// the levels are the numbers. `offsets` has the shape of the scales, or is empty. `four` is the
// constant 4 as i8, for 4-bit levels.
Value widened(const Value& levels, const Value& scales, const Value& offsets, const Value& four,
              const Blocks& blocks, int bits, DType dtype);

}  // namespace hg
