// SPDX-License-Identifier: Apache-2.0
#include "hg/text/tokenizer.h"

#include "lib/graph/border.h"
#include "lib/text/text_file.h"
#include "lib/text/tokenizer_model.h"
#include "lib/text/unicode.h"

namespace hg {
namespace {

class PipelineModel : public Tokenizer::Model {
 public:
  explicit PipelineModel(Pipeline parts) : parts_(std::move(parts)) {
    size_ = parts_.model->size();
    for (const auto& [id, token] : parts_.added.tokens()) {
      added_tokens.push_back({id, token.text, token.special});
      size_ = std::max(size_, id + 1);
    }
  }

  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special,
                                      bool plain) const override {
    HG_TRY_ASSIGN(Pieces pieces, parts_.added.cut(text, parts_.normalizer, plain));
    HG_TRY(parts_.pre_tokenizer(pieces));
    std::vector<int32_t> ids;
    for (const Piece& piece : pieces) {
      if (piece.id >= 0)
        ids.push_back(piece.id);
      else
        HG_TRY(parts_.model->encode(piece.text, ids));
    }
    return parts_.post_processor(std::move(ids), add_special);
  }

  Result<std::string> decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::vector<std::string> tokens;
    for (const int32_t id : ids)
      if (const std::string* token = spelling(id, skip_special)) tokens.push_back(*token);
    HG_TRY(parts_.decoder.run(tokens));
    std::string text;
    for (const std::string& token : tokens) text += token;
    return text;
  }

  std::optional<int32_t> id_of(std::string_view token) const override {
    const auto id = parts_.added.id_of(token);
    return id ? id : parts_.model->id_of(token);
  }
  std::string token_of(int32_t id) const override {
    const auto added = parts_.added.tokens().find(id);
    if (added != parts_.added.tokens().end()) return added->second.text;
    const std::string* known = parts_.model->token_of(id);
    return known == nullptr ? std::string() : *known;
  }
  bool is_special(int32_t id) const override {
    const auto added = parts_.added.tokens().find(id);
    return added != parts_.added.tokens().end() && added->second.special;
  }
  int32_t size() const override { return size_; }
  const Decoder& decoder() const override { return parts_.decoder; }
  bool ends_in_byte(int32_t id, bool skip_special, bool before) const override {
    if (!parts_.decoder.joins_bytes) return false;
    const std::string* token = spelling(id, skip_special);
    return token == nullptr ? before : byte_of_token(*token) >= 0;
  }

 private:
  // The token of an id as the decoder gets it; null if the id is skipped or has no token.
  const std::string* spelling(int32_t id, bool skip_special) const {
    const auto added = parts_.added.tokens().find(id);
    const std::string* token = added != parts_.added.tokens().end() ? &added->second.normal_text
                                                                    : parts_.model->token_of(id);
    const bool is_skipped =
        token != nullptr && skip_special && parts_.added.is_special_text(*token);
    return is_skipped ? nullptr : token;
  }

  Pipeline parts_;
  int32_t size_ = 0;
};

Status check_size(std::string_view text) {
  HG_CHECK(text.size() <= kMostTextBytes, "a text has ", uint64_t{text.size()}, " bytes, at most ",
           uint64_t{kMostTextBytes}, " are possible");
  return {};
}

}  // namespace

std::shared_ptr<const Tokenizer::Model> tokenizer_model(Pipeline pipeline) {
  return std::make_shared<const PipelineModel>(std::move(pipeline));
}

Result<Tokenizer> Tokenizer::load(const std::string& path) {
  return or_no_memory([&]() -> Result<Tokenizer> {
    HG_TRY_ASSIGN(const std::string bytes, read_text_file(path));
    return from_json(bytes, path);
  });
}

Result<Tokenizer> Tokenizer::from_json(std::string_view json, std::string_view name) {
  return or_no_memory([&]() -> Result<Tokenizer> {
    const Json parsed = Json::parse(json.begin(), json.end(), nullptr, false);
    const JsonAt top(parsed, str_cat(name, ": "));
    if (parsed.is_discarded()) return corrupt_model(name, ": the file is not JSON");
    if (!parsed.is_object()) return corrupt_model(name, ": the JSON is not an object");
    Pipeline parts;
    HG_TRY_ASSIGN(parts.model, token_model_from(top.member("model")));
    HG_TRY_ASSIGN(parts.normalizer, normalizer_from(top.member("normalizer")));
    HG_TRY_ASSIGN(parts.pre_tokenizer, pre_tokenizer_from(top.member("pre_tokenizer")));
    HG_TRY_ASSIGN(parts.post_processor, post_processor_from(top.member("post_processor")));
    HG_TRY_ASSIGN(parts.decoder, decoder_from(top.member("decoder")));
    HG_TRY_ASSIGN(parts.added, AddedVocabulary::read(top.member("added_tokens"), *parts.model,
                                                     parts.normalizer));
    return Tokenizer(tokenizer_model(std::move(parts)));
  });
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, bool add_special) const {
  return or_no_memory([&]() -> Result<std::vector<int32_t>> {
    HG_TRY(check_size(text));
    return model_->encode(valid_utf8(text), add_special, false);
  });
}

Result<std::vector<int32_t>> Tokenizer::encode_plain(std::string_view text) const {
  return or_no_memory([&]() -> Result<std::vector<int32_t>> {
    HG_TRY(check_size(text));
    return model_->encode(valid_utf8(text), false, true);
  });
}

Result<std::string> Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  return or_no_memory([&]() -> Result<std::string> {
    for (const int32_t id : ids)
      HG_CHECK(id >= 0 && id < model_->size(), "the id ", id, " is not in the vocabulary of ",
               model_->size(), " tokens");
    return model_->decode(ids, skip_special);
  });
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  return model_->id_of(token);
}
std::string Tokenizer::token_of(int32_t id) const {
  return id < 0 || id >= model_->size() ? std::string() : model_->token_of(id);
}
bool Tokenizer::is_special(int32_t id) const { return model_->is_special(id); }
int32_t Tokenizer::vocabulary_size() const { return model_->size(); }
const std::vector<AddedToken>& Tokenizer::added_tokens() const { return model_->added_tokens; }

}  // namespace hg
