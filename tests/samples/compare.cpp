// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/compare.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> compare() { return {}; }

}  // namespace hg::test::samples
