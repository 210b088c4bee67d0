// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/pointwise.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> pointwise() {
  std::vector<Sample> s;
  const DType all[] = {f32, f64, f16, bf16, i64, i32, i16, i8, u8, boolean};
  for (DType from : all)
    for (DType to : all)
      s.push_back(
          {"cast",
           {{from, {3, 17}, from == boolean || to == u8 ? 0.0 : -3.0, from == boolean ? 1.0 : 3.0}},
           {{"dtype", to}},
           0,
           to != f16 && to != bf16});
  s.push_back({"cast", {{f32, {0, 2}}}, {{"dtype", i64}}});
  for (DType from : {f32, f64, f16, bf16})
    s.push_back({"to_integer", {{from, {3, 17}, -300, 300}}});
  s.push_back({"to_integer", {{f32, {}, -1e9, 1e9}}});
  s.back().floats = {f32, f64, bf16};  // beyond f16
  s.push_back({"to_integer", {{f64, {0, 2}}}});
  for (DType dtype : {f32, i64, i32, i16, i8, u8, boolean}) {
    s.push_back({"where", {{boolean, {3, 1}, 0, 1}, {dtype, {17}, 0, 1}, {dtype, {3, 17}, 0, 1}}});
    s.push_back({"where", {{boolean, {2, 150}, 0, 1}, {dtype, {}, 0, 1}, {dtype, {2, 1}, 0, 1}}});
  }
  const SampleInput none = {.shape = {}, .given = false};
  for (DType dtype : {f32, i64, u8}) {
    s.push_back({"clamp", {{dtype, {3, 17}, 0, 9}, {dtype, {}, 2, 3}, {dtype, {17}, 5, 7}}});
    s.push_back({"clamp", {{dtype, {3, 17}, 0, 9}, {dtype, {3, 1}, 2, 3}, none}});
    s.push_back({"clamp", {{dtype, {3, 17}, 0, 9}, none, {dtype, {}, 5, 7}}});
  }
  s.push_back({"lerp", {{f32, {3, 17}}, {f32, {17}}, {f32, {}, 0.1, 0.3}}});
  s.push_back({"lerp", {{f32, {3, 17}}, {f32, {17}}, {f32, {3, 1}, 0.6, 0.9}}});
  return s;
}

}  // namespace hg::test::samples
