// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/reduce.cpp.
#include <cmath>

#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> reduce() {
  std::vector<Sample> s;
  const Sizes shapes[] = {{1}, {7}, {2, 3, 17}, {5, 33}, {4, 1, 9, 11}};
  for (std::string_view op :
       {"sum", "prod", "mean", "amax", "amin", "all", "any", "var", "std", "norm", "logsumexp"}) {
    const bool small = op == "var" || op == "std";
    s.push_back({op, {{f32, {}, 0.5, 2}}, {}, 1e-5, !small});
    for (const Sizes& shape : shapes) {
      const SampleInput x = {f32, shape, 0.5, 1.5};
      const bool smooth = !small || shape.count() > 2;
      s.push_back({op, {x}, {}, 2e-5, smooth});
      s.push_back({op, {x}, {{"dim", {-1}}, {"keepdim", true}}, 2e-5, smooth});
      s.push_back({op, {x}, {{"dim", {0}}}, 2e-5, smooth});
      if (shape.rank() > 2) s.push_back({op, {x}, {{"dim", {0, -1}}}, 2e-5});
      if (shape.rank() > 2) s.push_back({op, {x}, {{"dim", {1}}, {"keepdim", true}}, 2e-5, !small});
    }
    // In each row, other vectors and the rest after them hold the largest and smallest element.
    for (int64_t n : {75, 127})
      s.push_back({op, {{f32, {41, n}, 0.9, 1.1}}, {{"dim", {1}}}, 2e-5, false});
    if (op != "prod") s.push_back({op, {{f32, {3, 70001}, 0.1, 1}}, {{"dim", {1}}}, 2e-5, false});
    if (op != "prod") s.push_back({op, {{f32, {701, 90}, 0.1, 1}}, {{"dim", {0}}}, 2e-5, false});
  }
  for (std::string_view op : {"argmax", "argmin", "max", "min"}) {
    s.push_back({op, {{f32, {}}}});
    s.push_back({op, {{f32, {}}}, {{"dim", -1}}});
    s.push_back({op, {{f32, {2, 3, 17}}}});
    s.push_back({op, {{f32, {2, 3, 17}}}, {{"keepdim", true}}});
    for (int dim : {0, 1, -1}) s.push_back({op, {{f32, {2, 3, 17}}}, {{"dim", dim}}});
    s.push_back({op, {{f32, {5, 33}}}, {{"dim", 0}, {"keepdim", true}}});
    s.push_back({op, {{i64, {5, 33}, 0, 3}}, {{"dim", 1}}});
    s.push_back({op, {{boolean, {5, 33}, 0, 1}}, {{"dim", 0}}});
    s.push_back({op, {{f32, {0, 3}}}, {{"dim", 1}}});
  }
  for (DType dtype : {i64, i32, i16, i8, u8, boolean}) {
    const double high = dtype == boolean ? 1 : 3;
    for (std::string_view op : {"sum", "prod", "amax", "amin", "all", "any"}) {
      s.push_back({op, {{dtype, {5, 4, 9}, 0, high}}, {{"dim", {1}}}});
      s.push_back({op, {{dtype, {5, 19}, 0, high}}, {{"dim", {1}}}});
    }
  }
  for (double ord : {0.0, 1.0, 3.0, 0.5, HUGE_VAL, -HUGE_VAL})
    s.push_back(
        {"norm", {{f32, {4, 19}, 0.5, 1.5}}, {{"ord", ord}, {"dim", {-1}}}, 2e-5, ord != 0});
  for (std::string_view op : {"sum", "prod", "mean", "all", "any", "var"})
    for (const std::vector<Dim>& dims : {std::vector<Dim>{1}, {0, 1}, {1, 2}, {0, 1, 2}, {}})
      for (const Sizes& shape : {Sizes{2, 0, 3}, Sizes{2, 3, 0}, Sizes{0, 2, 3}})
        s.push_back({op, {{f32, shape}}, {{"dim", dims}}});
  s.push_back({"var", {{f32, {4, 19}}}, {{"dim", {1}}, {"correction", 0.0}}, 1e-5});
  // The variance does not fit f16.
  s.push_back({"std", {{f32, {4, 19}, -900, 900}}, {{"dim", {1}}}, 0, false});
  return s;
}

}  // namespace hg::test::samples
