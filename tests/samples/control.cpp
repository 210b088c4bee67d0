// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/control.cpp. `if` and `while` need subgraphs and have their own test.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> control() {
  return {
      {.op = "dims",
       .inputs = {},
       .attrs = {{"values", std::vector<Dim>{3, -1, int64_t{1} << 40}}}},
      {.op = "dims", .inputs = {}, .attrs = {{"values", std::vector<Dim>{}}}},
      {.op = "extent", .inputs = {{.dtype = i64, .shape = {}, .values = {7}}}},
      {.op = "extent", .inputs = {{.dtype = i64, .shape = {}, .values = {0}}}},
      {.op = "assert_true",
       .inputs = {{.dtype = boolean, .shape = {}, .values = {1}}},
       .attrs = {{"message", std::string("must hold")}}},
  };
}

}  // namespace hg::test::samples
