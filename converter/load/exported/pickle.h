// SPDX-License-Identifier: Apache-2.0
// Reads the tensors of a dict that torch.save wrote. Implements the needed part of Python's pickle
// and executes nothing. A class other than torch's tensor classes is an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hg::convert {

struct PickledTensor {
  std::string storage;      // the record with its bytes, in the folder data/
  int64_t torch_dtype = 0;  // c10::ScalarType
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;
  bool requires_grad = false;
};

// Returns names such as "weight" and their tensors, in order. Throws Refusal if the pickle is not
// such a dict.
std::vector<std::pair<std::string, PickledTensor>> read_pickled_tensors(std::string_view pickle);

}  // namespace hg::convert
