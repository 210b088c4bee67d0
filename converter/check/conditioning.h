// SPDX-License-Identifier: Apache-2.0
// Measures how far a result moves if inputs and weights change by about one unit in the last place.
// A difference of that size is not a conversion error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "converter/check/check_inputs.h"
#include "converter/load/load.h"
#include "hg/model.h"

namespace hg::convert {

class Conditioning {
 public:
  // Measures libtorch's outputs: runs it several times. Throws ReferenceFailure.
  Conditioning(const Loaded& loaded, const Inputs& inputs, uint64_t seed);
  // Measures the model's own outputs, without optimization.
  Conditioning(const Model& model, const Inputs& inputs);

  // Where the output must move. there: at the elements that differ. anywhere: at equally many
  // elements, for steps of a quantization. The k-th largest movement must then match the k-th
  // largest difference.
  enum class Where : uint8_t { there, anywhere };
  // Returns why all differing elements of an output may differ; empty if any of them may not.
  std::string excuse(size_t output, const Tensor& ours, const Tensor& theirs, Where where) const;

 private:
  std::string whose_;
  std::vector<std::vector<TensorData>> runs_;  // [run][output]; the first run is not moved
};

}  // namespace hg::convert
