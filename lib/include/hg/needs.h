// SPDX-License-Identifier: Apache-2.0
// What a model needs of the library, for builds that hold no more (the option HG_OPS of CMake).
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hg/status.h"
#include "hg/tensor.h"

namespace hg {

struct Needs {
  std::set<std::string> ops;  // of the file, of what passes make of them, and of what plans expand
  // Of an op, a kernel that plans took, or any, and the instruction sets that they took it for:
  // "plain", and of "sse4", "avx2" and "avx512" those that this processor has.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> kernels;
  std::set<DType> dtypes;  // of all values on that way
};

// Of a model, or of all functions of a library, compiled for the CPU with the default options and
// planned for `dims`. Symbols without a size there are planned with 1, 2, 8 and 32, all with the
// same one; invalid_argument when no such size fits. One at a time: sessions that other threads
// create meanwhile may run with a lesser instruction set than the processor has.
Result<Needs> needs_of(const std::string& path,
                       const std::vector<std::pair<std::string, int64_t>>& dims = {});

}  // namespace hg
