// SPDX-License-Identifier: Apache-2.0
// Elements of tensors of every dtype, as doubles.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "hg/tensor.h"

namespace hg::test {

double read_element(const Tensor& t, int64_t offset);
// Integers wrap around, as they do in torch.
void write_element(const Tensor& t, int64_t offset, double value);
// In row-major order, whatever the strides.
std::vector<double> read_all(const Tensor& t);
// To compare floats bit by bit; all NaNs are equal.
inline std::vector<uint32_t> bits(const std::vector<float>& values) {
  std::vector<uint32_t> all;
  for (const float value : values)
    all.push_back(std::isnan(value) ? 1 : std::bit_cast<uint32_t>(value));
  return all;
}

}  // namespace hg::test
