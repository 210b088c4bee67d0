// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: reads bytes as a tokenizer.json, and encodes, decodes and streams the bytes
// themselves. Streams equal decode().
#include <cstdlib>
#include <string>

#include "hg/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const hg::Result<hg::Tokenizer> tokenizer = hg::Tokenizer::from_json(bytes, "fuzz");
  if (!tokenizer.ok()) {
    if (tokenizer.status().message().empty()) std::abort();
    return 0;
  }
  const auto ids = tokenizer->encode(bytes.substr(0, 512));
  if (!ids.ok()) return 0;
  // A post-processor may name ids that the vocabulary lacks.
  const auto text = tokenizer->decode(*ids);
  if (!text.ok()) return 0;
  hg::StreamDecoder stream(*tokenizer);
  std::string streamed;
  for (const int32_t id : *ids) {
    const auto piece = stream.push(id);
    if (!piece.ok()) return 0;
    streamed += *piece;
  }
  const auto rest = stream.finish();
  if (rest.ok() && streamed + *rest != *text) std::abort();
  return 0;
}
