// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/matmul.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> matmul() { return {}; }

}  // namespace hg::test::samples
