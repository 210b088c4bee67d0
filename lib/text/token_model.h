// SPDX-License-Identifier: Apache-2.0
// The `model` of a tokenizer.json: a vocabulary, and how a piece of text is split into tokens.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/text/json_fields.h"

namespace hg {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Ids = std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>>;

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the ids of a piece of text. The piece must not be empty.
  virtual Status encode(std::string_view text, std::vector<int32_t>& ids) const = 0;

  std::optional<int32_t> id_of(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional<int32_t>(found->second);
  }
  // Null if no token has this id.
  const std::string* token_of(int32_t id) const {
    const auto found = tokens_.find(id);
    return found == tokens_.end() ? nullptr : found->second;
  }
  size_t count() const { return ids_.size() + hidden_.size(); }
  int32_t size() const { return size_; }  // one more than the largest id

 protected:
  // `hidden` tokens have the spelling of one of `ids`, but another id.
  void set_ids(Ids ids, std::map<int32_t, std::string> hidden = {});

 private:
  Ids ids_;
  std::map<int32_t, std::string> hidden_;
  std::unordered_map<int32_t, const std::string*> tokens_;
  int32_t size_ = 0;
};

struct BpeSettings {
  Ids ids;
  std::vector<std::pair<std::string, std::string>> merges;  // best first
  std::optional<std::string> unknown;
  std::string prefix, suffix;  // of characters after the first, and of the last one
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
};
Result<std::unique_ptr<TokenModel>> make_bpe(BpeSettings settings, std::string_view name);

struct UnigramSettings {
  std::vector<std::pair<std::string, double>> tokens;  // with scores, by id
  std::optional<int32_t> unknown;
  bool byte_fallback = false;
};
Result<std::unique_ptr<TokenModel>> make_unigram(UnigramSettings settings, std::string_view name);

struct WordSettings {
  Ids ids;
  std::string unknown;
  std::string prefix;          // of all but the first token of a word
  int32_t longest_word = 100;  // characters
  bool splits = true;          // false: a word is a token or unknown
};
Result<std::unique_ptr<TokenModel>> make_words(WordSettings settings);

Result<std::unique_ptr<TokenModel>> token_model_from(const JsonAt& json);

// Ids of the tokens <0x00> to <0xFF> for the bytes of the text; empty if one is missing.
std::optional<std::vector<int32_t>> ids_of_bytes(const TokenModel& model, std::string_view text);

}  // namespace hg
