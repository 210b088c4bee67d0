// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/movement.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> movement() { return {}; }

}  // namespace hg::test::samples
