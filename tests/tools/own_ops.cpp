// SPDX-License-Identifier: Apache-2.0
// own_ops OWN.hgm LARGE.hgm ODD.hgm: writes a model of acme.wave, which only a plugin has, a model
// of 2,000 nodes, and one with odd names and weights and only known sizes.
#include <cmath>
#include <limits>

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

// Adds a buffer with these elements, and returns its sum, so that a node reads the buffer.
template <class T>
hg::Value sum_of(hg::Graph& graph, const std::string& name, const std::vector<T>& elements,
                 hg::DType dtype = hg::dtype_of<T>()) {
  const hg::ConstTensor as(elements.data(), dtype, {static_cast<int64_t>(elements.size())}, {1});
  const hg::Value held = graph.buffer(name, *hg::TensorData::copy_of(as));
  return cast(graph.call("sum", {cast(held, hg::f64)}), hg::f32);
}

hg::Status write_odd(const std::string& path) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  hg::Graph graph;
  graph.set_origin({"constructor.__proto__", "</script>.py:1"});
  hg::Value x = graph.input("x", hg::f32, {1, 8, 12, 12});
  // A weight that a pass computes, and that its only reader packs.
  const hg::Value w = graph.parameter("conv", hg::f32, {32, 8, 3, 3}, hg::init::uniform(-1, 1, 1));
  const hg::Value ones = graph.parameter("ones", hg::f32, {32}, hg::init::ones());
  const hg::Value tenth = graph.parameter("tenth", hg::f32, {32}, hg::init::constant(0.1));
  x = relu(graph.call("batch_norm",
                      {graph.call("conv", {x, w, hg::Value()}), ones, tenth, tenth, ones}));
  graph.set_origin({"constructor.toString \"q\" & </script><b>", "odd.py:2"});
  x = graph.call("amax", {x}, {{"dim", {1, 2, 3}}});
  const hg::Value parts[] = {sum_of<float>(graph, "bad", {NAN, kInf, -kInf, 1, 2}),
                             sum_of<float>(graph, "nan", {NAN}),
                             sum_of<float>(graph, "</script>'\"&", {-1, 0, 0.5f, 3}),
                             sum_of<float>(graph, "far", {1e6f, 1e6f + 1, 1e6f + 2, 1e6f + 3}),
                             sum_of<double>(graph, "large", {-1.5e308, 0, 1.5e308}),
                             sum_of<double>(graph, "close", {1, 1 + 1e-9, 1 + 2e-9}),
                             sum_of<hg::Half>(graph, "half", {hg::Half(-1), hg::Half(0.5f)}),
                             sum_of<int64_t>(graph, "whole", {-3, 4, 5}),
                             sum_of<uint8_t>(graph, "flags", {1, 0, 1}, hg::boolean)};
  for (const hg::Value& part : parts) x = x + part;
  graph.output("y", x);
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::from_graph(std::move(graph)));
  return model.save(path);
}

}  // namespace

int main(int argc, char** argv) {
  return argc == 4 && write_own(argv[1]).ok() && write_large(argv[2]).ok() &&
                 write_odd(argv[3]).ok()
             ? 0
             : 1;
}
