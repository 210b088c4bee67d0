// SPDX-License-Identifier: Apache-2.0
// A GGUF file's decoder as a graph. Prompts and single steps are runs of the same graph.
//
// Inputs: input_ids i64[b, t], attention_mask i64[b, p + t] (0 hides a position, such as padding on
// the left), position_ids i64[b, t], and for each layer i past_key_values.i.key and .value,
// f32[b, kv_heads, p, dim]. Outputs: logits f32[b, t, vocabulary], and present.i.key and .value,
// the past with the new positions appended.
#pragma once

#include <cstdint>

#include "converter/load/gguf/file.h"
#include "hg/graph.h"

namespace hg::convert::gguf {

struct Decoder {
  Graph graph;
  int64_t vocabulary = 0;
  int64_t context = 0;  // positions that the model was made for; 0: not stated
};

// Throws Failure, naming the architecture, setting, tensor or type that is not supported.
Decoder build_decoder(const File& file);

}  // namespace hg::convert::gguf
