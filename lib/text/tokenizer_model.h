// SPDX-License-Identifier: Apache-2.0
// The data that copies of a Tokenizer share.
#pragma once

#include "hg/text/tokenizer.h"
#include "lib/text/added_vocabulary.h"
#include "lib/text/decoder.h"
#include "lib/text/post_processor.h"

namespace hg {

class Tokenizer::Model {
 public:
  virtual ~Model() = default;
  // `text` is valid UTF-8.
  virtual Result<std::vector<int32_t>> encode(std::string_view text, bool add_special,
                                              bool plain) const = 0;
  // The ids are less than size().
  virtual Result<std::string> decode(std::span<const int32_t> ids, bool skip_special) const = 0;
  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;
  virtual std::string token_of(int32_t id) const = 0;
  virtual bool is_special(int32_t id) const = 0;
  virtual int32_t size() const = 0;
  // The last step of decode(). A stream uses its properties to decide what it may return and
  // forget.
  virtual const Decoder& decoder() const = 0;
  // Whether the text of ids that end in `id` may change if bytes follow. `before` is the answer for
  // the ids before it.
  virtual bool ends_in_byte(int32_t id, bool skip_special, bool before) const = 0;

  std::vector<AddedToken> added_tokens;
};

// The parts of a tokenizer.json.
struct Pipeline {
  std::unique_ptr<TokenModel> model;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  PostProcessor post_processor;
  Decoder decoder;
  AddedVocabulary added;
};
std::shared_ptr<const Tokenizer::Model> tokenizer_model(Pipeline pipeline);

}  // namespace hg
