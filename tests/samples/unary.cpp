// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/unary.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> unary() { return {}; }

}  // namespace hg::test::samples
