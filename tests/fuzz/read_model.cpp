// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: reads bytes as a .hgm file. A model that is read is also verified, written,
// read again, compiled and planned. Each step may return a Status, but must not crash, hang or use
// more memory than the file justifies. tests/fuzz/run has the command.
#include <cstdlib>

#include "hg/hg.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const hg::Result<hg::Model> model = hg::Model::read(std::as_bytes(std::span(data, size)));
  if (!model.ok()) return 0;
  const std::string text = model->graph().text();
  if (!model->graph().verify().ok()) std::abort();
  const hg::Result<std::vector<std::byte>> bytes = model->serialize();
  if (!bytes.ok()) return 0;  // a size that has no text of its own
  const hg::Result<hg::Model> again = hg::Model::read(*bytes);
  if (!again.ok() || again->graph().text() != text) std::abort();

  hg::SessionOptions options{.threads = 1, .memory_limit = 16 << 20};
  for (const std::string& symbol : model->graph().symbols()) options.dims.emplace_back(symbol, 2);
  const hg::Result<hg::Session> session = hg::Session::create(*model, options);
  if (session.ok() && session->memory().ok() &&
      session->memory()->arena_bytes > options.memory_limit)
    std::abort();
  return 0;
}
