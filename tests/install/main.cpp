// SPDX-License-Identifier: Apache-2.0
// Builds and runs a graph with the installed library; ends well when 2.5 + 2.5 is 5.
#include <vector>

#include "hg/hg.h"

int main() {
  hg::Graph graph;
  const hg::Value x = graph.input("x", hg::f32, {"n"});
  graph.output("sum", graph.call("add", {x, x}));
  hg::Result<hg::Model> model = hg::Model::from_graph(std::move(graph));
  if (!model.ok()) return 1;
  hg::Result<hg::Session> session = hg::Session::create(*model);
  const std::vector<float> values = {2.5f, 1.0f};
  if (!session.ok() || !session->set_input("x", hg::view(values, {2})).ok()) return 2;
  if (!session->run().ok()) return 3;
  hg::Result<hg::Tensor> sum = session->output("sum");
  return sum.ok() && sum->as<float>()[0] == 5.0f ? 0 : 4;
}
