// SPDX-License-Identifier: Apache-2.0
// Tokens that continue a text of a grammar: those whose bytes lead the automaton to a living state.
#include <algorithm>
#include <limits>
#include <map>

#include "lib/graph/border.h"
#include "lib/text/decoder.h"
#include "lib/text/grammar/rules.h"
#include "lib/text/tokenizer_model.h"
#include "lib/text/unicode.h"

namespace hg {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";
constexpr size_t kMostMasks = 128;  // per sequence

// Bytes of tokens in order, so that neighbors share beginnings.
struct TokenTable {
  struct Token {
    std::string bytes;
    int32_t id;
    size_t shared = 0;  // bytes that the token before begins with
  };
  std::vector<Token> tokens;

  void sort() {
    std::sort(tokens.begin(), tokens.end(),
              [](const Token& a, const Token& b) { return a.bytes < b.bytes; });
    for (size_t i = 1; i < tokens.size(); ++i) {
      const std::string &a = tokens[i - 1].bytes, &b = tokens[i].bytes;
      tokens[i].shared = static_cast<size_t>(
          std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
    }
  }
};

// Byte-level tokens with parts of characters.
std::string bytes_of_spelling(const std::string& token) {
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const int byte = byte_of_char(next_char(token, at));
    if (byte < 0) return {};
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

// The bytes that each token adds to the text of `before`.
Status read_table(const Tokenizer& tokenizer, std::vector<int32_t> before, TokenTable& table) {
  HG_TRY_ASSIGN(const std::string context, tokenizer.decode(before));
  before.push_back(0);
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (tokenizer.is_special(id)) continue;
    before.back() = id;
    const std::string spelling = tokenizer.token_of(id);
    const int byte = tokenizer.model().decoder().joins_bytes ? byte_of_token(spelling) : -1;
    std::string bytes;
    if (byte >= 0x80) {  // part of a character
      bytes = static_cast<char>(byte);
    } else {
      HG_TRY_ASSIGN(const std::string text, tokenizer.decode(before));
      if (!text.starts_with(context))
        return unsupported("grammar: the text of the token '", spelling,
                           "' depends on its neighbors");
      bytes = text.substr(context.size());
      if (bytes.find(kReplacement) != std::string::npos)
        if (std::string exact = bytes_of_spelling(spelling); !exact.empty())
          bytes = std::move(exact);
    }
    if (!bytes.empty()) table.tokens.push_back({std::move(bytes), id});
  }
  table.sort();
  return {};
}

}  // namespace

class TokenTexts {
 public:
  TokenTable first, later;  // of the first token of an answer, and of the others
};

namespace {

class GrammarState final : public Constraint::State {
 public:
  GrammarState(std::shared_ptr<const Grammar::Rules> rules, std::shared_ptr<const TokenTexts> texts)
      : texts_(std::move(texts)), automaton_(std::move(rules)), state_(automaton_.start()) {}

  Result<bool> restrict(std::span<float> logits, std::span<const int32_t> stop_ids) override {
    return or_no_memory([&]() -> Result<bool> {
      const std::vector<bool>& allowed = mask();
      const bool is_whole = automaton_.is_whole(state_);
      const auto may_stop = [&](size_t id) {
        return is_whole && std::find(stop_ids.begin(), stop_ids.end(), static_cast<int32_t>(id)) !=
                               stop_ids.end();
      };
      bool continues = false;
      for (size_t id = 0; id < logits.size(); ++id) {
        const bool fits = (id < allowed.size() && allowed[id] &&
                           std::find(stop_ids.begin(), stop_ids.end(), static_cast<int32_t>(id)) ==
                               stop_ids.end()) ||
                          may_stop(id);
        if (!fits) logits[id] = -std::numeric_limits<float>::infinity();
        continues |= fits;
      }
      HG_CHECK(continues || is_whole, "grammar: no token of the vocabulary continues the text");
      return continues;
    });
  }

  Status push(int32_t id) override {
    return or_no_memory([&]() -> Status {
      const auto& tokens = table().tokens;
      const auto found = std::find_if(tokens.begin(), tokens.end(),
                                      [&](const auto& token) { return token.id == id; });
      HG_CHECK(found != tokens.end(), "grammar: the token ", id, " has no text");
      int32_t next = state_;
      for (const char byte : found->bytes) {
        next = automaton_.next(next, static_cast<uint8_t>(byte));
        HG_CHECK(next != Automaton::kDead, "grammar: the token ", id, " cannot follow");
      }
      is_first_ = false;
      state_ = next;
      if (automaton_.is_full()) {
        state_ = automaton_.forget_others(next);
        masks_.clear();
      }
      return {};
    });
  }

 private:
  const TokenTable& table() const { return is_first_ ? texts_->first : texts_->later; }

  // By id, whether the token may follow.
  const std::vector<bool>& mask() {
    const std::pair key(state_, is_first_);
    if (const auto known = masks_.find(key); known != masks_.end()) return known->second;
    if (masks_.size() >= kMostMasks) masks_.clear();
    std::vector<bool>& allowed = masks_[key];
    std::vector<int32_t> path = {state_};  // states after the bytes of the token before
    for (const TokenTable::Token& token : table().tokens) {
      path.resize(std::min(path.size(), token.shared + 1));
      while (path.back() != Automaton::kDead && path.size() <= token.bytes.size())
        path.push_back(
            automaton_.next(path.back(), static_cast<uint8_t>(token.bytes[path.size() - 1])));
      if (path.back() == Automaton::kDead) continue;
      const auto id = static_cast<size_t>(token.id);
      if (id >= allowed.size()) allowed.resize(id + 1);
      allowed[id] = true;
    }
    return allowed;
  }

  std::shared_ptr<const TokenTexts> texts_;
  Automaton automaton_;
  int32_t state_;
  bool is_first_ = true;
  std::map<std::pair<int32_t, bool>, std::vector<bool>> masks_;
};

class GrammarConstraint final : public Constraint {
 public:
  GrammarConstraint(std::shared_ptr<const Grammar::Rules> rules,
                    std::shared_ptr<const TokenTexts> texts)
      : rules_(std::move(rules)), texts_(std::move(texts)) {}

  Result<std::unique_ptr<State>> begin() const override {
    return or_no_memory([&]() -> Result<std::unique_ptr<State>> {
      return std::unique_ptr<State>(new GrammarState(rules_, texts_));
    });
  }

 private:
  std::shared_ptr<const Grammar::Rules> rules_;
  std::shared_ptr<const TokenTexts> texts_;
};

}  // namespace

Result<std::shared_ptr<const TokenTexts>> token_texts(const Tokenizer& tokenizer) {
  return or_no_memory([&]() -> Result<std::shared_ptr<const TokenTexts>> {
    auto made = std::make_shared<TokenTexts>();
    const Decoder& decoder = tokenizer.model().decoder();
    if (!decoder.is_local || !decoder.appends)
      return unsupported("grammar: the decoder of the tokenizer joins neighboring tokens");
    HG_TRY_ASSIGN(const std::vector<int32_t> ids, tokenizer.encode_plain("a"));
    if (ids.empty()) return unsupported("grammar: the tokenizer has no token for the text 'a'");
    HG_TRY(read_table(tokenizer, {}, made->first));
    HG_TRY(read_table(tokenizer, {ids.back()}, made->later));
    return std::shared_ptr<const TokenTexts>(std::move(made));
  });
}

std::shared_ptr<const Constraint> constraint_of(const Grammar& grammar,
                                                std::shared_ptr<const TokenTexts> texts) {
  return std::make_shared<GrammarConstraint>(grammar.rules(), std::move(texts));
}

}  // namespace hg
