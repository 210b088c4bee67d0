// SPDX-License-Identifier: Apache-2.0
// The ops, kernels and dtypes that a model needs, for builds restricted to them (CMake option
// HG_OPS).
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
  std::set<std::string> ops;  // in the file, created by passes, or created by expansion
  // By (op, kernel): the instruction sets for which plans chose the kernel. They are "plain", and
  // those of "neon_dot", "neon_i8mm", "neon_bf16", "sse4", "avx2", "avx2_vnni", "avx512",
  // "avx512_vnni", "avx512_bf16" and "avx512_amx" that this processor supports.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> kernels;
  std::set<DType> dtypes;  // of all values of these ops
};

// Returns the needs of a model, or of all functions of a library. It is compiled for the CPU with
// default options and planned for `dims`. All symbols without a size are set to 1, then to 2, 8 and
// 32. Fails with invalid_argument if no such size fits.
//
// Not thread-safe: limits the instruction set of sessions that other threads create during the
// call.
Result<Needs> needs_of(const std::string& path,
                       const std::vector<std::pair<std::string, int64_t>>& dims = {});

}  // namespace hg
