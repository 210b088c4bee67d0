// SPDX-License-Identifier: Apache-2.0
// Builds the graph of a GGUF file's decoder. The same graph runs prompts and single steps.
#pragma once

#include <cstdint>

#include "converter/load/gguf/file.h"
#include "hg/graph.h"

namespace hg::convert::gguf {

struct Decoder {
  Graph graph;
  int64_t vocabulary = 0;
  int64_t context = 0;  // positions that the model was trained for; 0: not stated
};

// Throws Failure, naming the architecture, setting, tensor or type that is not supported.
Decoder build_decoder(const File& file);

}  // namespace hg::convert::gguf
