// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/pointwise.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> pointwise() { return {}; }

}  // namespace hg::test::samples
