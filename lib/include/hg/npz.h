// SPDX-License-Identifier: Apache-2.0
// Arrays by name in NumPy's .npz archives. These functions are in libhologram_io, which needs
// libzip: the library itself needs nothing, and zip archives are read by what has been reading them
// for long.
#pragma once

#include <string>

#include "hg/named_arrays.h"

namespace hg {

// In the order of the archive, without ".npy" at the end of their names. Fails as read_npy() does,
// and with corrupt_model when the archive is damaged.
Result<NamedArrays> read_npz(const std::string& path);

// As numpy.savez, or with `compressed` as numpy.savez_compressed. The file is there whole or not at
// all. Names must differ, and not be empty.
Status write_npz(const std::string& path, const NamedArrays& arrays, bool compressed = false);

}  // namespace hg
