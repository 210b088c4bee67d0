// SPDX-License-Identifier: Apache-2.0
// Weights that nodes widen from levels: what hg::quantize writes (lib/quantize/rounding.h), and
// what other quantizers do with casts, zero points and scales.
#pragma once

#include <optional>
#include <string_view>

#include "lib/compile/passes.h"

namespace hg {

// A matrix of (levels - zeros) * scales + offsets. Zeros, scales and offsets have the blocks of the
// dim `split` along the same dim.
struct WeightLevels {
  struct Numbers {
    ValueId id = kNoValue;
    Sizes blocks;  // along both dims; 1 if all of a dim share a number
  };
  ValueId levels = kNoValue;
  Numbers zeros, scales, offsets;
  bool is_unsigned = false;  // u8, else i8
  int packed = -1;           // the dim along which each byte holds two halves; -1: 8-bit levels
  int split = -1;            // the dim along which `group` neighbors share a scale; -1: none
  int64_t group = 1;
  DType dtype = f32;  // of the widened weight
  Sizes shape;        // of the weight, without the `ones`
  int ones = 0;       // last dims of the weight: the sizes of a kernel of one pixel

  // The blocks of all numbers together.
  Sizes blocks() const;
};

class LevelReader {
 public:
  LevelReader(const Graph& graph, const CompileContext& context)
      : graph_(graph), context_(context) {}

  // The weight that the value is: a scale per row, column or matrix, or per block of a dim.
  std::optional<WeightLevels> weight(ValueId id) const;
  // A matrix of nothing but levels, in floats, or its transpose: then changes `turned`.
  std::optional<WeightLevels> unscaled(ValueId id, bool& turned) const;
  // Whether the value depends only on constants, through ops that compute scales.
  bool is_fixed(ValueId id) const;

  const Node* producer(ValueId id) const;
  const Node* producer(ValueId id, std::string_view op) const;  // null: another op
  const Tensor* constant(ValueId id) const;
  int64_t integer(const Node& node, std::string_view name) const;
  bool turns(const Node& permute) const;  // whether it transposes a matrix

 private:
  struct Spread;
  ValueId attached(ValueId id) const;
  std::optional<Sizes> sizes(ValueId id, int ones) const;
  bool factor(WeightLevels::Numbers& numbers, const Sizes& product, int ones) const;
  bool is_four(ValueId id) const;
  bool is_zero(ValueId id) const;
  bool integers_of(ValueId from, const Sizes& shape, WeightLevels& q) const;
  bool levels_of(ValueId id, const Sizes& shape, WeightLevels& q) const;
  bool apart_levels_of(ValueId id, const Sizes& shape, WeightLevels& q) const;
  ValueId centred(ValueId id, WeightLevels& q) const;
  const Node* product_of(ValueId id, ValueId& levels, WeightLevels& q) const;
  std::optional<WeightLevels> in_blocks(const Node& reshape, WeightLevels q) const;
  std::optional<WeightLevels> in_rows_of_blocks(ValueId levels, const Sizes& cut,
                                                WeightLevels q) const;
  std::optional<Spread> spread(ValueId id, const Sizes& shape, int ones) const;

  const Graph& graph_;
  const CompileContext& context_;
};

}  // namespace hg
