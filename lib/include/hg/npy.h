// SPDX-License-Identifier: Apache-2.0
// Arrays in NumPy's .npy files, versions 1 to 3, little-endian, C and Fortran order. bf16, which
// NumPy lacks, is read and written as two raw bytes ("V2"), as the ml_dtypes package does.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "hg/array.h"

namespace hg {

// Fortran order shows in the strides. Fails with not_found when the file cannot be opened,
// corrupt_model when it is damaged or no .npy file, and unsupported for an element type that hg
// lacks or big-endian bytes.
Result<Array> read_npy(const std::string& path);
// The same of a file in memory, which is copied; `name` stands in messages.
Result<Array> read_npy(std::span<const std::byte> bytes, const std::string& name);

// Writes version 1.0 in C order, whatever the strides. Fails when the file cannot be written whole.
Status write_npy(const std::string& path, const ConstTensor& tensor);
// What stands before the elements in such a file.
std::vector<std::byte> npy_header(DType dtype, const Sizes& shape);

}  // namespace hg
