// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/pool.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> pool() { return {}; }

}  // namespace hg::test::samples
