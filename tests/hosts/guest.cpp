// SPDX-License-Identifier: Apache-2.0
// A shared library that contains Hologram, compiled without exceptions and RTTI as some hosts are.
#include "hg/hg.h"

namespace {

hg::Status run(const float* x, int64_t n, float* y) {
  hg::Graph graph;
  const hg::Value in = graph.input("x", hg::f32, {"n"});
  graph.output("y", relu(in) * 2.0);
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::from_graph(std::move(graph)));
  HG_TRY_ASSIGN(hg::Session session, hg::Session::create(model, {.threads = 1}));
  HG_TRY(session.set_input("x", hg::view(x, hg::f32, {n})));
  HG_TRY(session.set_output("y", hg::view(y, hg::f32, {n})));
  return session.run();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int guest_run(const float* x, int64_t n,
                                                                float* y) {
  return static_cast<int>(run(x, n, y).code());
}
