// SPDX-License-Identifier: Apache-2.0
// Reads and writes NumPy .npz archives. These functions are in libhologram_io, which uses libzip.
#pragma once

#include <string>

#include "hg/named_arrays.h"

namespace hg {

// Reads all arrays, in archive order, without ".npy" in their names. Fails as read_npy() does, and
// with corrupt_model if the archive is damaged.
Result<NamedArrays> read_npz(const std::string& path);

// Writes an archive as numpy.savez does, or as numpy.savez_compressed if `compressed`. The file is
// written completely or not at all. Names must be unique and not empty.
Status write_npz(const std::string& path, const NamedArrays& arrays, bool compressed = false);

}  // namespace hg
