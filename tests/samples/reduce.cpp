// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/reduce.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> reduce() { return {}; }

}  // namespace hg::test::samples
