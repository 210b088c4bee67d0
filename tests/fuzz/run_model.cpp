// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: plans models that the reader accepts and runs them twice on one thread, within
// limits of memory and rounds. Both runs return the same bits, or fail with a sentence.
#include <cstdlib>

#include "hg/hg.h"
#include "hg/op.h"

namespace {

constexpr int64_t kMostBytes = 16 << 20;
constexpr double kMostFlops = 1e8;

// 1, 2, 1, 2 ... as bytes of any dtype; indices stay small.
std::vector<std::byte> elements(int64_t bytes, int64_t element) {
  std::vector<std::byte> all(bytes);
  for (size_t i = 0; i < all.size(); i += static_cast<size_t>(element))
    all[i] = std::byte(i / 8 % 2);
  return all;
}

// Without state that a run changes, and without random ops, here or in a body.
bool is_repeatable(const hg::Graph& graph) {
  if (!graph.assignments().empty()) return false;
  for (const hg::Node& node : graph.nodes()) {
    if (node.op->def.traits & hg::kRandom) return false;
    for (const auto& body : node.subgraphs)
      if (!is_repeatable(*body)) return false;
  }
  return true;
}

hg::Result<hg::Sizes> shape_of(const hg::TensorType& type, const hg::SessionOptions& options) {
  hg::Bindings sizes;
  for (const auto& [symbol, size] : options.dims) HG_TRY(sizes.bind(symbol, size));
  return evaluate(type.shape, sizes);
}

// The bytes of all outputs, one after the other; empty where the run failed.
std::vector<char> run(hg::Session& session) {
  std::vector<char> all;
  if (!session.run().ok()) return all;
  for (int i = 0; i < session.output_count(); ++i) {
    const hg::Result<hg::Tensor> y = session.output(i);
    if (!y.ok()) std::abort();
    std::vector<char> bytes(y->bytes());
    void* const to = bytes.data();
    if (!bytes.empty()) copy_elements(*y, hg::view(to, y->dtype, y->shape));
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const hg::Result<hg::Model> model =
      hg::Model::read(std::as_bytes(std::span(data, size)), hg::Registry::built_in(),
                      {.max_nodes = 200, .max_bytes = 1 << 16});
  if (!model.ok()) return 0;
  hg::SessionOptions options{.threads = 1, .memory_limit = kMostBytes, .most_rounds = 1000};
  for (const std::string& symbol : model->graph().symbols()) options.dims.emplace_back(symbol, 2);
  hg::Result<hg::Session> session = hg::Session::create(*model, options);
  if (!session.ok() || session->flops() > kMostFlops) return 0;
  std::vector<std::vector<std::byte>> inputs;
  for (int i = 0; i < session->input_count(); ++i) {
    const hg::TensorType& type = session->input_type(i);
    const hg::Result<hg::Sizes> shape = shape_of(type, options);
    if (!shape.ok()) return 0;
    int64_t bytes = size_of(type.dtype);
    for (const int64_t count : *shape)
      if (__builtin_mul_overflow(bytes, count, &bytes) || bytes > kMostBytes) return 0;
    inputs.push_back(elements(bytes, size_of(type.dtype)));
    const void* const from = inputs.back().data();
    if (!session->set_input(i, hg::view(from, type.dtype, *shape)).ok()) return 0;
  }
  const std::vector<char> first = run(*session), second = run(*session);
  if (is_repeatable(model->graph()) && first != second) std::abort();
  return 0;
}
