// SPDX-License-Identifier: Apache-2.0
// chat_models count|random WORDS FILE [ATTACHMENT]...: writes a small language model with the files
// attached. `count`: after the id i, i + 1 is the most likely. `random`: a decoder with random
// weights, a past, and 65,536 positions.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "hg/hg.h"

namespace {

using hg::Dim, hg::Value;

void count(hg::Graph& g, int64_t words) {
  hg::Result<hg::TensorData> table = hg::TensorData::allocate(hg::f32, {words, words});
  if (!table.ok()) std::abort();
  for (int64_t i = 0; i < words; ++i)
    for (int64_t j = 0; j < words; ++j)
      table->tensor.as<float>()[i * words + j] = j == (i + 1) % words ? 4.0f : 0.0f;
  g.output("logits",
           hg::embedding(g.parameter("table", *table), g.input("input_ids", hg::i64, {"b", "t"})));
}

void decode(hg::Graph& g, int64_t words) {
  constexpr int64_t kWidth = 32, kHeads = 4, kHeadDim = 8, kPositions = 65536;
  const Dim b("b"), t("t"), p("p");
  uint64_t seed = 0;
  const auto weight = [&](int64_t rows, int64_t columns, double scale) {
    ++seed;
    return g.parameter(hg::str_cat("w", seed), hg::f32, {rows, columns},
                       hg::init::normal(0, scale, seed));
  };
  const Value ids = g.input("input_ids", hg::i64, {b, t});
  const Value mask = g.input("attention_mask", hg::i64, {b, p + t});
  const Value shown = hg::reshape(hg::ne(mask, g.scalar(int64_t{0}, hg::i64)), {b, 1, 1, p + t});
  const Value before = hg::le(hg::arange(g, p + t), hg::reshape(hg::arange(g, p, p + t), {t, 1}));
  Value x = hg::add(
      hg::embedding(weight(words, kWidth, 1), ids),
      hg::embedding(weight(kPositions, kWidth, 1), g.input("position_ids", hg::i64, {b, t})));
  for (int layer = 0; layer < 2; ++layer) {
    const Value normed = hg::rms_norm(x, {kWidth});
    const auto heads = [&] {
      return hg::permute(
          hg::reshape(hg::linear(normed, weight(kWidth, kWidth, 0.2)), {b, t, kHeads, kHeadDim}),
          {0, 2, 1, 3});
    };
    const auto with_past = [&](const char* part) {
      const std::string name = hg::str_cat(layer, ".", part);
      const Value past = g.input("past_key_values." + name, hg::f32, {b, kHeads, p, kHeadDim});
      const Value all = hg::concat({past, heads()}, 2);
      g.output("present." + name, all);
      return all;
    };
    const Value q = heads(), k = with_past("key"), v = with_past("value");
    const Value mixed =
        hg::permute(hg::attention(q, k, v, hg::logical_and(before, shown)), {0, 2, 1, 3});
    x = hg::add(x, hg::linear(hg::reshape(mixed, {b, t, kWidth}), weight(kWidth, kWidth, 0.2)));
  }
  g.output("logits", hg::linear(hg::rms_norm(x, {kWidth}), weight(words, kWidth, 0.5)));
}

hg::Status write(const std::string& kind, int64_t words, const std::string& file,
                 const std::vector<std::string>& attachments) {
  hg::Graph graph;
  kind == "count" ? count(graph, words) : decode(graph, words);
  HG_TRY_ASSIGN(hg::Model model, hg::Model::from_graph(std::move(graph)));
  hg::Model::Info info;
  for (const std::string& path : attachments) {
    std::ifstream in(path, std::ios::binary);
    info.attachments.push_back({std::filesystem::path(path).filename().string(),
                                std::string(std::istreambuf_iterator(in), {})});
  }
  model.set_info(std::move(info));
  return model.save(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 1;
  const hg::Status status =
      write(argv[1], std::atoll(argv[2]), argv[3], std::vector<std::string>(argv + 4, argv + argc));
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
