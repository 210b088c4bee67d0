// SPDX-License-Identifier: Apache-2.0
#include "converter/onnx/rows.h"

#include <array>

#include "converter/onnx/node.h"

namespace hg::convert {

std::span<const std::span<const Builtin>> onnx_builtins() {
  using namespace onnx;
  static const std::array tables = {
      elementwise_rows(),
      shape_rows(),
      slice_rows(),
      index_rows(),
      reduce_rows(),
      conv_rows(),
      pool_rows(),
      norm_rows(),
      matmul_rows(),
      resize_rows(),
      quantize_rows(),
      attention_rows(),
      loss_rows(),
      signal_rows(),
      random_rows(),
      detection_rows(),
      recurrent_rows(),
      sequence_rows(),
      control_rows(),
      contrib_rows(),
      contrib_attention_rows(),
      contrib_grouped_attention_rows(),
      contrib_quantize_rows(),
      ml_rows(),
      ml_trees_rows(),
      ml_vectors_rows(),
  };
  return tables;
}

}  // namespace hg::convert
