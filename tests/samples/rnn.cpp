// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/rnn.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> rnn() { return {}; }

}  // namespace hg::test::samples
