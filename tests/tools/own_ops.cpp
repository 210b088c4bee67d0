// SPDX-License-Identifier: Apache-2.0
// own_ops OWN.hgm LARGE.hgm: writes a model of acme.wave, which only a plugin has, and one of 2,000
// nodes.
#include "hg/hg.h"
#include "wave.h"

namespace {

hg::Status write_own(const std::string& path) {
  hg::Registry registry;
  HG_TRY(acme::add_ops(registry));
  hg::Graph graph(registry);
  const hg::Value x = graph.input("x", hg::f32, {"n", 4});
  graph.output("y", graph.call("acme.wave", {x}, {{"gain", 0.5}}));
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::from_graph(std::move(graph)));
  return model.save(path);
}

hg::Status write_large(const std::string& path) {
  hg::Graph graph;
  hg::Value x = graph.input("x", hg::f32, {4});
  for (int i = 0; i < 2000; ++i) {
    graph.set_origin({hg::str_cat("layers.", i / 20, i % 2 == 0 ? ".a" : ".b"), "large.py:1"});
    x = i % 2 == 0 ? tanh(x) : x + 0.5;
  }
  graph.output("y", x);
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::from_graph(std::move(graph)));
  return model.save(path);
}

}  // namespace

int main(int argc, char** argv) {
  return argc == 3 && write_own(argv[1]).ok() && write_large(argv[2]).ok() ? 0 : 1;
}
