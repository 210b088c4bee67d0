// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/composite.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> composite() { return {}; }

}  // namespace hg::test::samples
