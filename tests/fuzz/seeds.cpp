// SPDX-License-Identifier: Apache-2.0
// seeds FOLDER: writes a small model per op, and .npy files of each dtype, as seeds.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "hg/hg.h"
#include "hg/npy.h"
#include "tests/ops/samples.h"
#include "tests/support/unchecked_graph.h"

namespace hg::test {
namespace {

// The sample's op alone; constants are zeros, since only the graph counts.
Result<std::vector<std::byte>> model_of(const Sample& sample) {
  Graph graph;
  std::vector<Value> arguments;
  for (const SampleInput& input : sample.inputs) {
    const std::string name = str_cat("x", static_cast<int64_t>(arguments.size()));
    if (!input.given) {
      arguments.emplace_back();
    } else if (input.constant) {
      HG_TRY_ASSIGN(TensorData zeros, TensorData::allocate(input.dtype, input.shape));
      arguments.push_back(graph.constant(std::move(zeros), name));
    } else {
      Shape shape = to_shape(input.shape);
      if (!shape.empty() && sample.inputs.size() == 1) shape[0] = "n";
      arguments.push_back(graph.input(name, input.dtype, shape));
    }
  }
  for (const Value& y : graph.calls(sample.op, arguments, sample.attrs)) graph.output("", y);
  HG_TRY_ASSIGN(const Model model, Model::from_graph(std::move(graph)));
  HG_TRY_ASSIGN(std::vector<std::byte> bytes, model.serialize());
  return unchecked_graph(std::move(bytes));  // so that mutations reach the reader
}

}  // namespace
}  // namespace hg::test

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("seeds FOLDER\n", stderr), 1;
  std::filesystem::create_directories(argv[1]);
  const std::vector<std::byte> zeros(96);
  for (int d = 0; d < hg::kDTypeCount; ++d) {
    const auto dtype = static_cast<hg::DType>(d);
    const auto tensor = hg::view(static_cast<const void*>(zeros.data()), dtype, {2, 3});
    if (!hg::write_npy(str_cat(argv[1], "/", dtype, ".npy"), tensor).ok())
      return std::fputs("seeds: a file cannot be written\n", stderr), 1;
  }
  std::set<std::string_view> ops;
  for (const hg::test::Sample& sample : hg::test::all_samples()) {
    if (ops.contains(sample.op)) continue;
    const auto bytes = hg::test::model_of(sample);
    if (!bytes.ok() || bytes->size() > 4096) continue;
    ops.insert(sample.op);
    std::ofstream file(hg::str_cat(argv[1], "/", sample.op, ".hgm"), std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes->data()),
               static_cast<std::streamsize>(bytes->size()));
    if (!file.flush()) return std::fputs("seeds: a file cannot be written\n", stderr), 1;
  }
  std::printf("%zu models\n", ops.size());
  return ops.empty();
}
