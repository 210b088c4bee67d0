// SPDX-License-Identifier: Apache-2.0
// Continues a text with a language model: what tests/nightly/size links.
// generates MODEL.hgm TEXT
#include <cstdio>

#include "hg/generator.h"
#include "hg/text/model_files.h"
#include "hg/text/tokenizer.h"

namespace {

hg::Result<std::string> continued(const char* path, const char* text) {
  HG_TRY_ASSIGN(const hg::Model model, hg::Model::load(path));
  HG_TRY_ASSIGN(const hg::Tokenizer tokenizer, hg::tokenizer_of(model));
  HG_TRY_ASSIGN(hg::Generator generator, hg::Generator::create(model));
  HG_TRY_ASSIGN(const std::vector<int32_t> prompt, tokenizer.encode(text));
  HG_TRY_ASSIGN(const hg::Generation answer, generator.generate({prompt}));
  return tokenizer.decode(answer.sequences[0].ids);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 1;
  const hg::Result<std::string> text = continued(argv[1], argv[2]);
  std::puts(text.ok() ? text->c_str() : std::string(text.status().message()).c_str());
  return text.ok() ? 0 : 2;
}
