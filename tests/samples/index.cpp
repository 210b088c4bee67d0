// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/index.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> index() { return {}; }

}  // namespace hg::test::samples
