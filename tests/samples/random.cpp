// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/random.cpp: what does not depend on the numbers drawn.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> random() {
  return {
      {.op = "dropout", .inputs = {{f32, {3, 5}}}, .attrs = {{"p", 0.5}}},
      {.op = "dropout", .inputs = {{f32, {2, 3, 4}}}, .attrs = {{"p", 0.0}, {"training", true}}},
      {.op = "dropout", .inputs = {{f32, {7}}}, .attrs = {{"p", 1.0}, {"training", true}}},
  };
}

}  // namespace hg::test::samples
