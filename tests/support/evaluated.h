// SPDX-License-Identifier: Apache-2.0
// All outputs of an f64 graph, concatenated.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "hg/hg.h"
#include "tests/support/must.h"

namespace hg::test {

// Inputs have at most one dim.
inline std::vector<double> evaluate(Graph graph, const std::vector<std::vector<double>>& inputs) {
  const Model model = must(Model::from_graph(std::move(graph)));
  Session session = must(Session::create(model));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Sizes shape = session.input_type(static_cast<int>(i)).rank() == 0
                            ? Sizes{}
                            : Sizes{static_cast<int64_t>(inputs[i].size())};
    EXPECT_TRUE(session.set_input(static_cast<int>(i), view(inputs[i], shape)).ok());
  }
  must(session.run());
  std::vector<double> results;
  for (int i = 0; i < session.output_count(); ++i) {
    const Tensor tensor = *session.output(i);
    std::vector<double> values(tensor.count());
    copy_elements(tensor, view(values, tensor.shape));
    results.insert(results.end(), values.begin(), values.end());
  }
  return results;
}

}  // namespace hg::test
