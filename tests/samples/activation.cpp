// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/activation.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> activation() { return {}; }

}  // namespace hg::test::samples
