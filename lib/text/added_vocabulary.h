// SPDX-License-Identifier: Apache-2.0
// The `added_tokens` of a tokenizer.json. They are found in a text before the model sees it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "hg/text/tokenizer.h"
#include "lib/text/pre_tokenizer.h"
#include "lib/text/prefix_table.h"
#include "lib/text/token_model.h"

namespace hg {

class AddedVocabulary {
 public:
  struct Token {
    std::string text;
    bool special = false, normalized = false, single_word = false, left_strip = false,
         right_strip = false;
    std::string normal_text;  // the text after the normalizer, if `normalized`
  };

  // Reads the list. A token of the model keeps its id; others get the next free ids.
  static Result<AddedVocabulary> read(const JsonAt& json, const TokenModel& model,
                                      const Normalizer& normalizer);
  Status add(Token token, const TokenModel& model, const Normalizer& normalizer);
  // Must follow the last add(). Fails if two tokens are equal after normalization.
  Status finish();

  // Normalizes the text and splits it at added tokens. With `plain`, special tokens are ordinary
  // text.
  Result<Pieces> cut(std::string_view text, const Normalizer& normalizer, bool plain) const;

  const std::map<int32_t, Token>& tokens() const { return tokens_; }
  std::optional<int32_t> id_of(std::string_view text) const;
  bool is_special_text(const std::string& text) const { return specials_.contains(text); }

 private:
  void cut(const Piece& piece, const PrefixTable& table, bool plain, Pieces& out) const;

  std::map<int32_t, Token> tokens_;
  Ids ids_;
  std::set<std::string> specials_;
  PrefixTable raw_, normal_;
};

}  // namespace hg
