// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/conv.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> conv() { return {}; }

}  // namespace hg::test::samples
