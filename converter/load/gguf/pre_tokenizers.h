// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizers of byte-level vocabularies, by their names in GGUF files. They match the
// models' original tokenizer.json.
#pragma once

#include <string_view>

namespace hg::convert::gguf {

struct PreTokenizerKind {
  std::string_view name;
  // Steps before and after the byte level, separated by newlines: "digits", "digit runs",
  // "punctuation", or a regular expression that isolates its matches.
  std::string_view before = {}, behind = {};
  bool splits_words = false;  // the byte level splits words as in GPT-2
  bool composes = false;      // the text is normalized to NFC
  bool whole_words = false;   // a piece that is itself a token is not split into merges
  bool adds_bos = false;      // unless the file states otherwise
};

// Returns null if the name is unknown.
const PreTokenizerKind* pre_tokenizer_kind(std::string_view name);

}  // namespace hg::convert::gguf
