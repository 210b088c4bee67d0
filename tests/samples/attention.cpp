// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/attention.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> attention() { return {}; }

}  // namespace hg::test::samples
