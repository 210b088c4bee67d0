// SPDX-License-Identifier: Apache-2.0
// Elements of tensors of every dtype, as doubles.
#pragma once

#include <vector>

#include "hg/tensor.h"

namespace hg::test {

double read_element(const Tensor& t, int64_t offset);
// Integers wrap around, as they do in torch.
void write_element(const Tensor& t, int64_t offset, double value);
// In row-major order, whatever the strides.
std::vector<double> read_all(const Tensor& t);

}  // namespace hg::test
