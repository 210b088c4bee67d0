// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/binary.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> binary() { return {}; }

}  // namespace hg::test::samples
