// SPDX-License-Identifier: Apache-2.0
// Tensors in NumPy's .npy files, versions 1 to 3, little-endian, C and Fortran order. bf16, which
// NumPy lacks, is read and written as two raw bytes ("V2"), as the ml_dtypes package does.
#pragma once

#include <memory>
#include <string>

#include "hg/tensor.h"

namespace hg::tools {

// What a file holds. Fortran order shows in the strides.
struct NpyArray {
  Tensor tensor;
  std::shared_ptr<void> owner;  // of the elements
};

// Fails with not_found when the file cannot be opened, corrupt_model when it is damaged or no .npy
// file, and unsupported for an element type that hg lacks or big-endian bytes.
Result<NpyArray> read_npy(const std::string& path);

// Writes version 1.0 in C order, whatever the strides. Fails when the file cannot be written whole.
Status write_npy(const std::string& path, const ConstTensor& tensor);

}  // namespace hg::tools
