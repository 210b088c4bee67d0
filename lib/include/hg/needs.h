// SPDX-License-Identifier: Apache-2.0
// What a model needs of the library, for builds that hold no more (the option HG_OPS of CMake).
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hg/status.h"
#include "hg/tensor.h"

namespace hg {

struct Needs {
  std::set<std::string> ops;  // of the file, of what passes make of them, and of what plans expand
  std::set<std::pair<std::string, std::string>>
      kernels;             // of which op: those that plans took, or all
  std::set<DType> dtypes;  // of all values on that way
};

// Of a model, or of all functions of a library, compiled for the CPU with the default options and
// planned for `dims`. Symbols without a size there are planned with 1, 2, 8 and 32, all with the
// same one; invalid_argument when no such size fits.
Result<Needs> needs_of(const std::string& path,
                       const std::vector<std::pair<std::string, int64_t>>& dims = {});

}  // namespace hg
