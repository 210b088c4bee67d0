// SPDX-License-Identifier: Apache-2.0
// Runs a model that uses an op of the application's own library (wave.h), and computes dy/dx.
// Without a file, it runs a model of that op alone.
#include <cstdio>
#include <string>

#include "hg/hg.h"
#include "hg/train.h"
#include "wave.h"

namespace {

void print(const char* name, const hg::Tensor& tensor) {
  std::printf("%s", name);
  for (int64_t i = 0; i < tensor.count(); ++i) std::printf(" %.3f", tensor.as<float>()[i]);
  std::printf("\n");
}

hg::Result<hg::Model> wave_alone(const hg::Registry& registry) {
  hg::Graph graph(registry);
  const hg::Value x = graph.input("x", hg::f32, {"n", 4});
  graph.output("y", graph.call("acme.wave", {x}, {{"gain", 0.5}}));
  return hg::Model::from_graph(std::move(graph));
}

hg::Status run_model(const char* file) {
  hg::Registry registry;  // holds the library's ops and the application's
  HG_TRY(acme::add_ops(registry));
  HG_TRY_ASSIGN(hg::Model model, file ? hg::Model::load(file, registry) : wave_alone(registry));

  hg::Graph& graph = model.graph();
  const hg::Value x = graph.value(graph.inputs()[0]);
  const hg::Value y = graph.value(graph.outputs()[0].second);
  const auto dx = hg::grad(y, {x});  // gradients of the sum of y
  HG_TRY(graph.status());
  graph.output("dx", dx[0]);

  HG_TRY_ASSIGN(hg::Session session, hg::Session::create(model));
  const float numbers[] = {0.1f, 0.2f, 0.3f, 0.4f, 1.0f, -1.0f, 0.5f, -0.5f};
  HG_TRY(session.set_input(0, hg::view(numbers, hg::f32, {2, 4})));
  HG_TRY(session.run());
  HG_TRY_ASSIGN(const hg::Tensor result, session.output(0));
  print("y", result);
  HG_TRY_ASSIGN(const hg::Tensor gradient, session.output("dx"));
  print("dy/dx", gradient);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2) {
    std::fprintf(stderr, "usage: custom_op [WAVE.hgm]\n");
    return 1;
  }
  const hg::Status status = run_model(argc == 2 ? argv[1] : nullptr);
  if (!status.ok()) std::fprintf(stderr, "custom_op: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
