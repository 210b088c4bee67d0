// SPDX-License-Identifier: Apache-2.0
// Two functions in one file that share a table, found and called by name.
#include <array>
#include <cstdio>
#include <string>

#include "hg/hg.h"
#include "hg/library.h"

namespace {

// embed: the vectors of words. closest: the most similar word for each vector.
hg::Status write(const std::string& path) {
  const std::array<float, 8> vectors = {1, 0, 0, 1, 0.6f, 0.8f, -1, 0};
  HG_TRY_ASSIGN(const hg::TensorData table, hg::TensorData::copy_of(hg::view(vectors, {4, 2})));
  hg::Library library;
  hg::Graph embed;
  const hg::Value words = embed.input("words", hg::i64, {"n"});
  embed.output("vectors", hg::embedding(embed.parameter("table", table), words));
  HG_TRY(library.add("embed", std::move(embed)));
  hg::Graph closest;
  const hg::Value given = closest.input("vectors", hg::f32, {"n", 2});
  const hg::Value scores = hg::linear(given, closest.parameter("table", table));
  closest.output("words", hg::argmax(scores, 1));
  HG_TRY(library.add("closest", std::move(closest)));
  return library.save(path);
}

hg::Status run(const std::string& path) {
  HG_TRY(write(path));
  HG_TRY_ASSIGN(const hg::Library library, hg::Library::load(path));
  std::printf("functions:");
  for (const std::string& name : library.functions()) std::printf(" %s", name.c_str());

  HG_TRY_ASSIGN(const hg::Model embed, library.function("embed"));
  HG_TRY_ASSIGN(hg::Session first, hg::Session::create(embed));
  const std::array<int64_t, 1> word = {2};
  HG_TRY(first.set_input("words", hg::view(word, {1})));
  HG_TRY(first.run());
  HG_TRY_ASSIGN(const hg::Tensor vector, first.output("vectors"));
  std::printf("\nword 2 is [%.1f, %.1f]\n", vector.as<float>()[0], vector.as<float>()[1]);

  HG_TRY_ASSIGN(const hg::Model closest, library.function("closest"));
  HG_TRY_ASSIGN(hg::Session second, hg::Session::create(closest));
  HG_TRY(second.set_input("vectors", vector));
  HG_TRY(second.run());
  HG_TRY_ASSIGN(const hg::Tensor found, second.output("words"));
  std::printf("closest to it is word %d\n", static_cast<int>(*found.as<int64_t>()));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const hg::Status status = run(argc > 1 ? argv[1] : "vectors.hgm");
  if (!status.ok()) std::fprintf(stderr, "library: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 2;
}
