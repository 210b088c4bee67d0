// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/expression.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> expression() {
  const SampleInput x = {.shape = {3, 5}}, y = {.shape = {5}}, none = {.shape = {0, 5}};
  const NamedAttrs backward = {{"text", "y = x * x + b"}, {"backward", "dx = 2*x*dy; db = dy"}};
  return {
      {.op = "expression", .inputs = {x, y}, .attrs = {{"text", "let t = a * b; t * sin(a)"}}},
      {.op = "expression", .inputs = {x, y}, .attrs = {{"text", "low = a - b; high = a + b*b"}}},
      {.op = "expression", .inputs = {none, y}, .attrs = {{"text", "a * b"}}},
      {.op = "expression", .inputs = {x, y}, .attrs = backward},
      {.op = "expression",
       .inputs = {y},
       .attrs = {{"text", "x * id(0)"}, {"shape", std::vector<Dim>{2, 5}}, {"strict", true}}},
  };
}

}  // namespace hg::test::samples
