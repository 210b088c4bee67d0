// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/conv.cpp.
#pragma once

#include <string>
#include <vector>

#include "hg/graph.h"
#include "hg/words.h"

namespace hg {

// Each list has one number per spatial dim, or one number for all of them.
struct ConvOptions {
  std::vector<Dim> stride = {1};
  std::vector<Dim> padding = {0};  // zeros on both sides
  std::vector<Dim> dilation = {1};
  Dim groups = 1;
  std::vector<Dim> output_padding = {0};     // conv_transposed only
  Activation activation = Activation::none;  // applied last
  // Adds each product without transforms (no Winograd): sums of integers below 2^24 are then exact
  // in f32.
  bool exact = false;
};

inline NamedAttrs conv_attrs(const ConvOptions& options, bool transposed) {
  return {{"stride", options.stride},
          {"padding", options.padding},
          {"dilation", options.dilation},
          {"transposed", transposed},
          {"output_padding", options.output_padding},
          {"groups", options.groups},
          {"activation", options.activation},
          {"exact", options.exact}};
}

// activation(x * weight + bias + residual), where * is the convolution. x: [n, c, spatial...] with
// one to three spatial dims, weight: [out, c / groups, kernel...], bias: [out]. residual has the
// shape of the result.
inline Value conv(const Value& x, const Value& weight, const Value& bias = {},
                  const ConvOptions& options = {}, const Value& residual = {}) {
  return x.graph()->call("conv", {x, weight, bias, residual}, conv_attrs(options, false));
}

// Transposed convolution. weight: [c, out / groups, kernel...].
inline Value conv_transposed(const Value& x, const Value& weight, const Value& bias = {},
                             const ConvOptions& options = {}, const Value& residual = {}) {
  return x.graph()->call("conv", {x, weight, bias, residual}, conv_attrs(options, true));
}

}  // namespace hg
