// SPDX-License-Identifier: Apache-2.0
// Products and convolutions whose inputs have 8 bits, too.
#include "hg/quantize.h"

namespace hg {

Result<Quantized> quantize(const Model&, std::span<const std::vector<ConstTensor>>,
                           const QuantizeOptions&, const SessionOptions&) {
  return unsupported("quantising inputs of products by samples is not there");
}

}  // namespace hg
