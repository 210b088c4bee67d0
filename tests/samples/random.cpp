// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/random.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> random() { return {}; }

}  // namespace hg::test::samples
