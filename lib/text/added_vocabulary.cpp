// SPDX-License-Identifier: Apache-2.0
#include "lib/text/added_vocabulary.h"

#include <algorithm>
#include <limits>

#include "lib/text/unicode.h"

namespace hg {

std::optional<int32_t> AddedVocabulary::id_of(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? std::nullopt : std::optional<int32_t>(found->second);
}

Status AddedVocabulary::add(Token token, const TokenModel& model, const Normalizer& normalizer) {
  if (token.text.empty()) return {};
  std::optional<int32_t> id = id_of(token.text);
  if (!id) id = model.id_of(token.text);
  if (!id) {
    id = static_cast<int32_t>(model.count());
    if (!tokens_.empty()) id = std::max(*id, tokens_.rbegin()->first + 1);
    if (*id == std::numeric_limits<int32_t>::max())
      return corrupt_model("no id is left for the added token '", token.text, "'");
  }
  Piece piece{token.text};
  if (token.normalized) HG_TRY(normalizer(piece));
  token.normal_text = piece.text;
  ids_[token.text] = *id;
  if (token.special) specials_.insert(token.text);
  tokens_[*id] = std::move(token);
  return {};
}

Status AddedVocabulary::finish() {
  std::vector<std::pair<std::string, int32_t>> raw, normal;
  std::set<std::pair<bool, std::string>> seen;
  for (const auto& [id, token] : tokens_) {
    if (token.normal_text.empty())
      return corrupt_model("the added token '", token.text, "' is empty after normalization");
    if (!seen.emplace(token.normalized, token.normal_text).second)
      return corrupt_model("two added tokens, one of them '", token.text, "', are '",
                           token.normal_text, "' after normalization");
    (token.normalized ? normal : raw).emplace_back(token.normal_text, id);
  }
  raw_ = PrefixTable(std::move(raw));
  normal_ = PrefixTable(std::move(normal));
  return {};
}

Result<AddedVocabulary> AddedVocabulary::read(const JsonAt& json, const TokenModel& model,
                                              const Normalizer& normalizer) {
  AddedVocabulary all;
  if (!json.is_null()) HG_TRY(json.is_list());
  for (size_t i = 0; !json.is_null() && i < json->size(); ++i) {
    const JsonAt item = json.item(i);
    Token token;
    HG_TRY_ASSIGN(token.text, item.member("content").text());
    HG_TRY_ASSIGN(token.special, item.member("special").flag());
    HG_TRY_ASSIGN(token.normalized, item.member("normalized").flag());
    HG_TRY_ASSIGN(token.single_word, item.member("single_word").flag());
    HG_TRY_ASSIGN(token.left_strip, item.member("lstrip").flag());
    HG_TRY_ASSIGN(token.right_strip, item.member("rstrip").flag());
    HG_TRY(all.add(std::move(token), model, normalizer));
  }
  const Status status = all.finish();
  if (!status.ok()) return json.wrong(status.message());
  return all;
}

// Repeatedly finds the longest token at the first position where one begins.
void AddedVocabulary::cut(const Piece& piece, const PrefixTable& table, bool plain,
                          Pieces& out) const {
  const std::string_view text = piece.text;
  const auto push = [&](size_t begin, size_t end, int32_t id) {
    if (begin >= end) return;
    const std::string_view part = id < 0 ? text.substr(begin, end - begin) : std::string_view();
    out.push_back({std::string(part), piece.at_start && begin == 0, id});
  };
  size_t done = 0;
  size_t spaces_begin = 1, spaces_end = 0;  // spaces that were found last, of several tokens
  for (size_t at = 0; at < text.size() && !table.empty();) {
    size_t length = 0;
    int32_t id = -1;
    table.each_prefix(text.substr(at), [&](size_t l, int32_t i) { length = l, id = i; });
    if (id < 0) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + length;
    at = end;
    const Token& token = tokens_.at(id);
    if (plain && token.special) continue;
    if (token.single_word) {
      size_t left = begin > 0 ? previous_char(text, begin) : 0, right = end;
      if ((begin > 0 && is_word(next_char(text, left))) ||
          (end < text.size() && is_word(next_char(text, right))))
        continue;
    }
    while (token.left_strip && begin > done) {
      size_t before = previous_char(text, begin);
      const size_t first = before;
      if (!is_white_space(next_char(text, before))) break;
      begin = first;
    }
    if (token.right_strip) {
      if (end < spaces_begin || end > spaces_end) {
        spaces_begin = spaces_end = end;
        while (spaces_end < text.size()) {
          size_t behind = spaces_end;
          if (!is_white_space(next_char(text, behind))) break;
          spaces_end = behind;
        }
      }
      end = spaces_end;
    }
    // Only a token with lstrip leaves out spaces that the token before took with rstrip. The
    // package reads them again for all others.
    if (token.left_strip) begin = std::max(begin, done);
    if (begin > end) continue;
    push(done, begin, -1);
    push(begin, end, id);
    done = end;
  }
  push(done, text.size(), -1);
}

Result<Pieces> AddedVocabulary::cut(std::string_view text, const Normalizer& normalizer,
                                    bool plain) const {
  Pieces raw, out;
  cut(Piece{std::string(text)}, raw_, plain, raw);
  for (Piece& piece : raw) {
    if (piece.id >= 0) {
      out.push_back(std::move(piece));
      continue;
    }
    HG_TRY(normalizer(piece));
    cut(piece, normal_, plain, out);
  }
  return out;
}

}  // namespace hg
