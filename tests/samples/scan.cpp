// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/scan.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> scan() {
  std::vector<Sample> s;
  for (std::string_view op : {"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"}) {
    s.push_back({op, {{f32, {}}}, {{"dim", 0}}, 1e-5});
    s.push_back({op, {{f32, {7}}}, {{"dim", -1}}, 1e-5});
    for (int dim : {0, 1, -1})
      s.push_back({op, {{f32, {3, 5, 17}, -1.5, 1.5}}, {{"dim", dim}}, 1e-5});
    s.push_back({op, {{f32, {3, 0, 2}}}, {{"dim", 1}}});
    s.push_back({op, {{f32, {200, 301}, -0.5, 0.5}}, {{"dim", 0}}, 1e-5, false});
    if (op == "logcumsumexp") continue;
    for (DType dtype : {i64, i32, i16, i8, u8, boolean})
      s.push_back({op, {{dtype, {5, 9}, 0, dtype == boolean ? 1.0 : 2.0}}, {{"dim", 1}}});
  }
  for (int dim : {0, 1, -1})
    s.push_back({"linear_scan", {{f32, {3, 5, 7}, -1, 1}, {f32, {3, 5, 7}}}, {{"dim", dim}}, 1e-5});
  s.push_back({"linear_scan", {{f32, {}}, {f32, {}}}, {{"dim", 0}}});
  s.push_back({"linear_scan", {{f64, {3, 0}}, {f64, {3, 0}}}, {{"dim", 1}}});
  s.push_back({"cumprod", {{f32, {6}, 0, 0, {1.5, 2, 0, 3, 0, 2}}}, {{"dim", 0}}});
  return s;
}

}  // namespace hg::test::samples
