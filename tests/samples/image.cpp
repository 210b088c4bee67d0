// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/image.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> image() { return {}; }

}  // namespace hg::test::samples
