// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/sort.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> sort() { return {}; }

}  // namespace hg::test::samples
