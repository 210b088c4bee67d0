// SPDX-License-Identifier: Apache-2.0
// Reads the tensors of a dict that torch.save wrote: the needed part of Python's pickle. Nothing in
// a pickle is executed; a class other than torch's tensor classes is an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hg::convert {

struct PickledTensor {
  std::string storage;      // the record of its bytes, below data/
  int64_t torch_dtype = 0;  // c10::ScalarType
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;
  bool requires_grad = false;
};

// "weight" and its tensor, in order. Throws Refusal for what is no such dict.
std::vector<std::pair<std::string, PickledTensor>> read_pickled_tensors(std::string_view pickle);

}  // namespace hg::convert
