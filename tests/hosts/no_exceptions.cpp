// SPDX-License-Identifier: Apache-2.0
// A host without exceptions and RTTI: every public header, a model, and an error.
#include "hg/array.h"
#include "hg/create.h"
#include "hg/expression.h"
#include "hg/hg.h"
#include "hg/npy.h"
#include "hg/plugin.h"
#include "hg/pool.h"
#include "hg/quantize.h"
#include "hg/shader.h"
#include "hg/train.h"

int main() {
  hg::Graph graph;
  const hg::Value x = graph.input("x", hg::f32, {3});
  graph.output("y", x + 1.0);
  const hg::Result<hg::Model> model = hg::Model::from_graph(std::move(graph));
  if (!model.ok()) return 1;
  hg::Result<hg::Session> session = hg::Session::create(*model);
  if (!session.ok()) return 2;
  const float two[2] = {1, 2}, three[3] = {1, 2, 3};
  if (session->set_input("x", hg::view(two, hg::f32, {2})).ok()) return 3;
  if (!session->set_input("x", hg::view(three, hg::f32, {3})).ok() || !session->run().ok())
    return 4;
  return session->output("y")->as<float>()[2] == 4 ? 0 : 5;
}
