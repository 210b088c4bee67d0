// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/trees.cpp.
#include <cmath>

#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> trees() {
  // A chain of tests, a tree with two levels, and a single leaf.
  std::vector<double> nodes, splits;
  const auto add = [&](std::vector<double> node, double split) {
    nodes.insert(nodes.end(), node.begin(), node.end());
    splits.push_back(split);
  };
  for (int test = 0; test < 16; ++test)
    add({test % 5 + 0.0, test + 0.0, 16.0 + test % 4, test + 1.0}, test % 4 * 0.25 - 0.5);
  for (int i = 0; i < 4; ++i) add({-1, 0, 10.0 - i, 0}, 0);
  add({4, 3, 21, 22}, 0);
  add({3, 5, 23, 24}, 0.5);
  add({2, 12, 25, 26}, NAN);
  for (int i = 0; i < 5; ++i) add({-1, 0, -2.0 + i, 0}, 0);
  const auto count = static_cast<int64_t>(splits.size());
  std::vector<Sample> s;
  // Features that are less than, equal to and greater than splits, and NaN.
  const auto features = [](int64_t rows) {
    SampleInput x = {f32, {rows, 5}};
    for (int64_t i = 0; i < rows * 5; ++i)
      x.values.push_back(i % 11 == 7 ? NAN : static_cast<double>(i * 7 % 9 - 4) * 0.25);
    return x;
  };
  // More rows and trees than one thread takes at once.
  std::vector<double> many;
  for (int i = 0; i < 40; ++i) many.push_back(i * 7 % 28);
  s.push_back({"tree_leaves",
               {features(70),
                {i32, {count, 4}, -1, 1, nodes},
                {f32, {count}, -1, 1, splits},
                {i32, {40}, 0, 0, many}}});
  for (int64_t rows : {1, 9, 0})
    for (bool constant : {false, true}) {
      const auto table = [&](DType dtype, Sizes shape, const std::vector<double>& values) {
        return SampleInput{dtype, shape, -1, 1, values, constant};
      };
      s.push_back({"tree_leaves",
                   {features(rows), table(i32, {count, 4}, nodes), table(f32, {count}, splits),
                    table(i32, {9}, {0, 20, 27, 12, 20, 21, 22, 3, 6})}});
      s.push_back({"tree_leaves",
                   {features(rows), table(i32, {count, 4}, nodes), table(f32, {count}, splits),
                    table(i32, {1}, {20})}});
      s.push_back({"tree_leaves",
                   {features(rows),
                    table(i32, {count, 4}, nodes),
                    table(f32, {count}, splits),
                    {i32, {0}}}});
    }
  return s;
}

}  // namespace hg::test::samples
