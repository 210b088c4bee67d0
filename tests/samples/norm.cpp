// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/norm.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> norm() { return {}; }

}  // namespace hg::test::samples
