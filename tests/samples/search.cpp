// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/search.cpp.
#include <cmath>

#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> search() {
  std::vector<Sample> s;
  const std::vector<double> ascending = {-2, -1, 0, 0, 1, 3, 4};
  for (bool consecutive : {false, true}) {
    for (DType dtype : {f32, i64, i16, u8, boolean})
      s.push_back({"unique",
                   {{dtype, {3, 7}, 0, dtype == boolean ? 1.0 : 4.0}},
                   {{"consecutive", consecutive}}});
    for (int dim : {0, 1, -1})
      s.push_back(
          {"unique", {{i64, {4, 5, 2}, 0, 1}}, {{"dim", dim}, {"consecutive", consecutive}}});
    s.push_back({"unique", {{i64, {40}, -1e9, 1e9}}, {{"consecutive", consecutive}}});
    s.push_back({"unique", {{i64, {300}, -4000, 4000}}, {{"consecutive", consecutive}}});
    s.push_back({"unique", {{i64, {0}}}, {{"consecutive", consecutive}}});
    s.push_back({"unique", {{i64, {}}}, {{"consecutive", consecutive}}});
  }
  for (bool right : {false, true}) {
    for (DType dtype : {f32, i64, i32}) {
      s.push_back({"searchsorted",
                   {{dtype, {7}, 0, 0, ascending}, {dtype, {3, 5}, -3, 5}},
                   {{"right", right}}});
      s.push_back({"searchsorted",
                   {{dtype, {1, 7}, 0, 0, ascending}, {dtype, {1, 5}, -3, 5}},
                   {{"right", right}}});
    }
    s.push_back(
        {"searchsorted", {{i64, {7}, 0, 0, ascending}, {i64, {}, -3, 5}}, {{"right", right}}});
  }
  s.push_back({"isin", {{i64, {3, 5}, 0, 9}, {i64, {4}, 0, 9}}});
  s.push_back({"isin", {{i64, {3, 5}, 0, 9}, {i64, {0}}}});
  for (const bool constant : {false, true}) {
    s.push_back({"isin", {{i64, {300}, 0, 99}, {i64, {150}, -50, 90, {}, constant}}});
    s.push_back({"isin",
                 {{f32, {5}, 0, 0, {NAN, -0.0, 2, 3, HUGE_VAL}},
                  {f32, {4}, 0, 0, {HUGE_VAL, NAN, 0, 3}, constant}},
                 {},
                 0,
                 false});
  }
  s.push_back({"bincount", {{i64, {19}, 0, 6}, {.shape = {}, .given = false}}});
  s.push_back({"bincount", {{i64, {19}, 0, 6}, {f64, {19}}}, {{"minlength", 12}}});
  s.push_back({"bincount", {{i64, {0}}, {.shape = {}, .given = false}}, {{"minlength", 3}}});
  s.push_back({"histc", {{f64, {53}, -1, 1}}, {{"bins", 7}, {"min", -0.8}, {"max", 0.9}}});
  return s;
}

}  // namespace hg::test::samples
