// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizers of byte-level vocabularies, by their names in GGUF files, as the original
// tokenizer.json of the models has them.
#pragma once

#include <string_view>

namespace hg::convert::gguf {

struct PreTokenizerKind {
  std::string_view name;
  // Steps before and behind the byte level, separated by a newline: "digits", "digit runs",
  // "punctuation", or a regular expression that isolates what it matches.
  std::string_view before = {}, behind = {};
  bool splits_words = false;  // the byte level splits as GPT-2's does
  bool composes = false;      // the text is normalized to NFC
  bool whole_words = false;   // a piece that is a token is not made of merges
  bool adds_bos = false;      // unless the file says otherwise
};

// Null if this converter does not know the name.
const PreTokenizerKind* pre_tokenizer_kind(std::string_view name);

}  // namespace hg::convert::gguf
