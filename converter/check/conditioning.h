// SPDX-License-Identifier: Apache-2.0
// How far a result moves when inputs and weights change by about one unit in the last place. A
// difference of that size is not a conversion error.
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
  // Of libtorch's answer: runs it several times. Throws ReferenceFailure.
  Conditioning(const Loaded& loaded, const Inputs& inputs, uint64_t seed);
  // Of the model's own, without optimization.
  Conditioning(const Model& model, const Inputs& inputs);

  // Where an answer has to move: at the elements that differ, or, as steps of a quantization do,
  // at as many, of which the k-th has to move as the k-th of those that differ does.
  enum class Where : uint8_t { there, anywhere };
  // Why all elements of an output that differ may do so; empty where one may not.
  std::string excuse(size_t output, const Tensor& ours, const Tensor& theirs, Where where) const;

 private:
  std::string whose_;
  std::vector<std::vector<TensorData>> runs_;  // [run][output]; the first one is not moved
};

}  // namespace hg::convert
