// SPDX-License-Identifier: Apache-2.0
// Converts the tokenizer of a GGUF file to the files of a Hugging Face folder: tokenizer.json,
// tokenizer_config.json, generation_config.json and chat_template.jinja.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "converter/load/gguf/file.h"
#include "hg/model.h"

namespace hg::convert::gguf {

struct TextFiles {
  std::vector<Model::Attachment> files;
  std::string note;  // why there is no tokenizer.json; empty if there is one
};

// Throws Failure if the tokenizer's fields contradict each other. `vocabulary` is the number of
// rows of the embedding.
TextFiles text_files(const File& file, int64_t vocabulary);

}  // namespace hg::convert::gguf
