// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back: the tokenizer.json files of Hugging Face.
// These functions are in libhologram_text, which uses ICU, Oniguruma and nlohmann-json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hg/status.h"

namespace hg {

// A token that is recognized in text before the text is split.
struct AddedToken {
  int32_t id;
  std::string text;
  bool special;  // skipped by decode(skip_special)
};

// Turns text into ids and ids into text, as the package `tokenizers` does. Immutable and
// thread-safe; copies share the tables.
//
// Bytes of a text that are not UTF-8 are read as U+FFFD, one per maximal invalid part, as Python's
// decode(errors="replace") does. `truncation` and `padding` in tokenizer.json are ignored.
class Tokenizer {
 public:
  // Loads a tokenizer.json. Fails with not_found, corrupt_model, or `unsupported` if it names a
  // component that this library does not have.
  static Result<Tokenizer> load(const std::string& path);
  // Parses the text of a tokenizer.json. Error messages begin with `name`.
  static Result<Tokenizer> from_json(std::string_view json,
                                     std::string_view name = "tokenizer.json");

  // Returns the ids of the text; with `add_special`, including the tokens that the post-processor
  // adds, such as [CLS]. Recognizes special tokens in the text; see encode_plain(). BPE without an
  // unknown token drops characters that the vocabulary lacks; other models fail. A text of more
  // than 682 MiB fails.
  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special = true) const;
  // As encode() without added special tokens, but special tokens in the text are split like any
  // other text. For text that a user supplies.
  Result<std::vector<int32_t>> encode_plain(std::string_view text) const;

  // Returns the text of the ids, valid UTF-8. Fails with invalid_argument if an id is outside the
  // vocabulary. An id inside it without a token, as in padded vocabularies, has no text.
  Result<std::string> decode(std::span<const int32_t> ids, bool skip_special = true) const;

  // Id of a token by its spelling in the vocabulary, such as "<|endoftext|>".
  std::optional<int32_t> id_of(std::string_view token) const;
  // Spelling of a token in the vocabulary; empty if there is no such id. Spellings of byte-level
  // tokens differ from their text: "\u0120the".
  std::string token_of(int32_t id) const;
  bool is_special(int32_t id) const;
  // One more than the largest id.
  int32_t vocabulary_size() const;
  // In order of ids.
  const std::vector<AddedToken>& added_tokens() const;

  class Model;  // internal
  explicit Tokenizer(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  const Model& model() const { return *model_; }

 private:
  std::shared_ptr<const Model> model_;
};

// Decodes ids that arrive one by one. The pieces concatenate to decode() of all ids, and each piece
// is valid UTF-8. With a decoder that needs the whole text, such as Replace after Fuse, finish()
// returns everything. Not thread-safe.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special = true);

  // Returns the text that the id completes, which may be empty: bytes of an incomplete character
  // are held back. Fails as decode() does; the id is then ignored. Fails with `unsupported` if the
  // decoder would change text that was already returned.
  Result<std::string> push(int32_t id);
  // Returns the rest, with U+FFFD for an incomplete character. The decoder can be used again.
  Result<std::string> finish();

 private:
  Result<std::string> append(std::string_view text);

  Tokenizer tokenizer_;
  bool skip_special_;
  std::vector<int32_t> ids_;  // since the start, or the context of the next id
  std::string shown_;         // the part of the text of ids_ that was returned
  bool in_bytes_ = false;
};

}  // namespace hg
