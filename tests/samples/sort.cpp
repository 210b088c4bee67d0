// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/sort.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> sort() {
  std::vector<Sample> s;
  for (bool descending : {false, true}) {
    s.push_back({"sort", {{f32, {}}}, {{"dim", 0}, {"descending", descending}}});
    s.push_back({"sort", {{f32, {0, 4}}}, {{"dim", 0}, {"descending", descending}}});
    for (int dim : {0, 1, -1})
      s.push_back({"sort", {{f32, {3, 37, 2}}}, {{"dim", dim}, {"descending", descending}}});
    for (DType dtype : {i64, i32, i16, i8, u8, boolean})
      s.push_back({"sort", {{dtype, {2, 61}, 0, 1}}, {{"dim", 1}, {"descending", descending}}});
    s.push_back({"topk", {{f32, {3, 37, 2}}}, {{"k", 5}, {"dim", 1}, {"largest", descending}}});
    s.push_back({"topk", {{f32, {37}}}, {{"k", 37}, {"largest", descending}}});
    for (int k : {0, 1, 9, 20, 299})  // few and many of the equal elements
      s.push_back({"topk", {{i64, {3, 300}, -9, 9}}, {{"k", k}, {"largest", descending}}});
    s.push_back({"topk", {{f32, {}}}, {{"k", 1}, {"largest", descending}}});
  }
  s.push_back({"sort", {{f32, {2, 3001}}}, {}, 0, false});
  for (int k : {1, 7, 37}) s.push_back({"kthvalue", {{f32, {3, 37, 2}}}, {{"k", k}, {"dim", 1}}});
  s.push_back({"kthvalue", {{f32, {9}}}, {{"k", 3}, {"keepdim", true}}});
  for (std::string_view op : {"median", "nanmedian"}) {
    s.push_back({op, {{f32, {3, 4, 5}}}});
    s.push_back({op, {{f32, {}}}});
    for (int dim : {0, 1, -1}) s.push_back({op, {{f32, {3, 4, 5}}}, {{"dim", dim}}});
    s.push_back({op, {{f32, {3, 4, 5}}}, {{"dim", 1}, {"keepdim", true}}});
    s.push_back({op, {{i64, {3, 9}, 0, 5}}, {{"dim", 1}}});
  }
  s.push_back({"mode", {{i64, {3, 19}, 0, 4}}, {{"dim", 1}}});
  s.push_back({"mode", {{i32, {19, 3}, 0, 4}}, {{"dim", 0}, {"keepdim", true}}});
  s.push_back({"mode", {{f32, {3, 9}}}, {}});
  return s;
}

}  // namespace hg::test::samples
