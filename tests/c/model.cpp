// SPDX-License-Identifier: Apache-2.0
// The models of c_test.c. With a FILE as argument, a program that writes the first model there for
// ctypes_test.py: y = x w' + b with x of f32[n, 3]. With a second FILE: x and t of bool[n, 2].
#include "tests/c/model.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "hg/hg.h"

namespace {

hg::Result<std::vector<std::byte>> model_bytes() {
  hg::Graph graph;
  std::vector<float> weights = {0.5f, -1, 2, 0.25f, 3, -0.75f}, bias = {0.125f, -2};
  HG_TRY_ASSIGN(hg::TensorData w, hg::TensorData::copy_of(hg::view(weights, {2, 3})));
  HG_TRY_ASSIGN(hg::TensorData b, hg::TensorData::copy_of(hg::view(bias, {2})));
  const hg::Value x = graph.input("x", hg::f32, {"n", 3});
  graph.set_origin({"head", "model.py:7"});
  const hg::Value y = hg::linear(x, graph.parameter("w", w), graph.parameter("b", b));
  graph.output("y", y);
  HG_TRY_ASSIGN(hg::Model model, hg::Model::from_graph(std::move(graph)));
  hg::Model::Info info;
  info.attachments = {{"tokenizer.json", std::string("{\0}", 3)}};
  model.set_info(std::move(info));
  return model.serialize();
}

// An adapter of rank 1: B A is 1 in its first column.
hg::Result<std::vector<std::byte>> adapter_bytes() {
  hg::Graph graph;
  std::vector<float> a = {1, 0, 0}, b = {1, 1}, scale = {1};
  HG_TRY_ASSIGN(hg::TensorData of_a, hg::TensorData::copy_of(hg::view(a, {1, 3})));
  HG_TRY_ASSIGN(hg::TensorData of_b, hg::TensorData::copy_of(hg::view(b, {2, 1})));
  HG_TRY_ASSIGN(hg::TensorData of_scale, hg::TensorData::copy_of(hg::view(scale, {1})));
  graph.parameter("w.lora_A.weight", of_a);
  graph.parameter("w.lora_B.weight", of_b);
  graph.buffer("w.lora_scale", of_scale);
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::from_graph(std::move(graph)));
  return model.serialize();
}

hg::Result<std::vector<std::byte>> random_model_bytes() {
  hg::Graph graph;
  graph.output("y", hg::rand(graph, {8}));
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::from_graph(std::move(graph)));
  return model.serialize();
}

hg::Result<std::vector<std::byte>> words_model_bytes() {
  hg::Graph graph;
  std::vector<float> one_hot(25), next(25);
  for (size_t i = 0; i < 5; ++i) {
    one_hot[i * 5 + i] = 1;
    next[(i + 1) % 5 * 5 + i] = 2;
  }
  HG_TRY_ASSIGN(hg::TensorData words, hg::TensorData::copy_of(hg::view(one_hot, {5, 5})));
  HG_TRY_ASSIGN(hg::TensorData head, hg::TensorData::copy_of(hg::view(next, {5, 5})));
  const hg::Dim b("b"), t("t"), p("p");
  const hg::Value x =
      hg::embedding(graph.parameter("words", words), graph.input("input_ids", hg::i64, {b, t}));
  // The past has no effect.
  const hg::Value shown = hg::cast(graph.input("attention_mask", hg::i64, {b, p + t}), hg::f32);
  const hg::Value at = hg::cast(graph.input("position_ids", hg::i64, {b, t}), hg::f32);
  const hg::Value present =
      hg::concat({graph.input("past.x", hg::f32, {b, 1, p, 1}), hg::reshape(at, {b, 1, t, 1})}, 2);
  const hg::Value read = hg::sum(present * hg::reshape(shown, {b, 1, p + t, 1}), {1, 2});
  graph.output("logits",
               hg::linear(x + hg::reshape(read, {b, 1, 1}) * 0.0f, graph.parameter("head", head)));
  graph.output("present.x", present);
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::from_graph(std::move(graph)));
  return model.serialize();
}

hg::Result<std::vector<std::byte>> entries_bytes() {
  hg::Model model;
  for (const bool adds : {true, false}) {
    hg::Graph graph;
    HG_TRY_ASSIGN(hg::TensorData zeros, hg::TensorData::allocate(hg::f32, {2}));
    std::memset(zeros.tensor.data, 0, static_cast<size_t>(zeros.tensor.bytes()));
    const hg::Value total = graph.buffer("total", zeros);
    graph.output("y", total + 0.0);
    if (adds) graph.assign(total, total + graph.input("x", hg::f32, {2}));
    HG_TRY(model.add_entry(adds ? "add" : "read", std::move(graph)));
  }
  return model.serialize();
}

#ifdef HG_TEST_MAIN
hg::Result<std::vector<std::byte>> truth_bytes() {
  hg::Graph graph;
  const hg::Value x = graph.input("x", hg::boolean, {"n", 2});
  graph.output("y", logical_and(x, graph.input("t", hg::boolean, {"n", 2})));
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::from_graph(std::move(graph)));
  return model.serialize();
}
#endif

size_t write(const hg::Result<std::vector<std::byte>>& bytes, void* to, size_t capacity) {
  if (!bytes.ok() || bytes->size() > capacity) return 0;
  std::memcpy(to, bytes->data(), bytes->size());
  return bytes->size();
}

}  // namespace

size_t hg_test_model(void* to, size_t capacity) { return write(model_bytes(), to, capacity); }
size_t hg_test_adapter(void* to, size_t capacity) { return write(adapter_bytes(), to, capacity); }
size_t hg_test_random_model(void* to, size_t capacity) {
  return write(random_model_bytes(), to, capacity);
}
size_t hg_test_words_model(void* to, size_t capacity) {
  return write(words_model_bytes(), to, capacity);
}

size_t hg_test_entries(void* to, size_t capacity) { return write(entries_bytes(), to, capacity); }

#ifdef HG_TEST_MAIN
int main(int argc, char** argv) {
  std::vector<char> bytes(1 << 16);
  for (int i = 1; i < argc; ++i) {
    const size_t size = write(i == 1 ? model_bytes() : truth_bytes(), bytes.data(), bytes.size());
    std::FILE* file = size > 0 ? std::fopen(argv[i], "wb") : nullptr;
    if (file == nullptr) return 1;
    const bool wrote = std::fwrite(bytes.data(), 1, size, file) == size;
    if (std::fclose(file) != 0 || !wrote) return 1;
  }
  return argc > 1 ? 0 : 1;
}
#endif
