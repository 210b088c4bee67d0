// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/control.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> control() { return {}; }

}  // namespace hg::test::samples
