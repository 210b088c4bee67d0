// SPDX-License-Identifier: Apache-2.0
// How far libtorch's own answer moves when inputs and weights change by about one unit in the last
// place: a difference of that size, at the same elements, is no error of the conversion.
#pragma once

#include <string>
#include <vector>

#include "converter/check/check_inputs.h"
#include "converter/load/load.h"

namespace hg::convert {

class Conditioning {
 public:
  // Runs libtorch several times. Throws ReferenceFailure.
  Conditioning(const Loaded& loaded, const Inputs& inputs, uint64_t seed);

  // Why all elements of an output that differ from libtorch's may do so; empty where one may not.
  std::string excuse(size_t output, const Tensor& ours, const Tensor& theirs) const;

 private:
  std::vector<std::vector<TensorData>> runs_;  // [run][output]; the first one is not moved
};

}  // namespace hg::convert
