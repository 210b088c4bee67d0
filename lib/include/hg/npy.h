// SPDX-License-Identifier: Apache-2.0
// Reads and writes NumPy .npy files: versions 1 to 3, little-endian, C and Fortran order. bf16,
// which NumPy does not have, is stored as two raw bytes ("V2"), as the ml_dtypes package does.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "hg/array.h"

namespace hg {

// Reads a file. Fortran order is expressed by the strides. Fails with not_found if the file cannot
// be opened, corrupt_model if it is damaged or not a .npy file, and unsupported for big-endian data
// and for other element types.
Result<Array> read_npy(const std::string& path);
// Reads a file in memory, which is copied. `name` is used in messages.
Result<Array> read_npy(std::span<const std::byte> bytes, const std::string& name);

// Writes version 1.0 in C order; the tensor may have any strides. Fails with not_found if the file
// cannot be written completely.
Status write_npy(const std::string& path, const ConstTensor& tensor);
// Returns the bytes that precede the elements in such a file.
std::vector<std::byte> npy_header(DType dtype, const Sizes& shape);

}  // namespace hg
