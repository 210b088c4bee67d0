// SPDX-License-Identifier: Apache-2.0
// Reads the tensors of a dict that torch.save wrote, or those of an object of a class that consists
// of tensors, such as torchao's. Implements the needed part of Python's pickle and executes
// nothing. Calls of other functions are an error.
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

// Returns names such as "weight" and their tensors, in order: "weight.qdata" for the tensors of an
// object in the dict, "qdata" for those of a single object. Throws Refusal for other pickles.
std::vector<std::pair<std::string, PickledTensor>> read_pickled_tensors(std::string_view pickle);

}  // namespace hg::convert
