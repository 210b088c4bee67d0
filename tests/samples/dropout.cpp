// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/dropout.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> dropout() {
  return {
      {.op = "dropout", .inputs = {{.shape = {3, 5}}}},
      {.op = "dropout", .inputs = {{.shape = {0}}}, .attrs = {{"p", 0.1}}},
      {.op = "dropout", .inputs = {{.shape = {}}}, .attrs = {{"p", 0.0}, {"training", true}}},
  };
}

}  // namespace hg::test::samples
