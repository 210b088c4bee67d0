// SPDX-License-Identifier: Apache-2.0
#include "transcript.h"

#include <algorithm>

namespace {

int64_t count_characters(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char byte) { return (byte & 0xc0) != 0x80; });
}

}  // namespace

Transcript::Transcript(hg::Tokenizer tokenizer, std::vector<std::string> stops, int32_t before,
                       bool with_tokens)
    : tokenizer_(std::move(tokenizer)),
      decoder_(tokenizer_),
      stops_(std::move(stops)),
      before_(before),
      with_tokens_(with_tokens) {}

// Some decoders change the first token of a text, so this one follows the token before it.
hg::Result<std::string> Transcript::text_of(int32_t id) const {
  const int32_t both[] = {before_, id};
  HG_TRY_ASSIGN(const std::string text, tokenizer_.decode(both, false));
  HG_TRY_ASSIGN(const std::string before, tokenizer_.decode({&both[0], 1}, false));
  if (text.starts_with(before)) return text.substr(before.size());
  return tokenizer_.decode({&id, 1}, false);
}

hg::Result<Piece> Transcript::push(const hg::GeneratedToken& token, const Likely& alternatives) {
  HG_TRY_ASSIGN(const std::string text, decoder_.push(token.id));
  if (with_tokens_) {
    Waiting next{decoded_, {{}, token.log_probability, characters_}};
    HG_TRY_ASSIGN(next.row.text, text_of(token.id));
    for (const auto& [id, log_probability] : alternatives) {
      HG_TRY_ASSIGN(std::string other, text_of(id));
      next.row.alternatives.emplace_back(std::move(other), log_probability);
    }
    waiting_.push_back(std::move(next));
    before_ = token.id;
  }
  decoded_ += text.size();
  characters_ += count_characters(text);
  return piece(stops_.push(text), false);
}

hg::Result<Piece> Transcript::finish() {
  HG_TRY_ASSIGN(const std::string rest, decoder_.finish());
  const std::string text = stops_.push(rest);
  return piece(text + stops_.finish(), true);
}

// Tokens after a stop string, or inside it, do not belong to the answer.
Piece Transcript::piece(const std::string& text, bool is_last) {
  Piece made{text};
  shown_ += text.size();
  while (!waiting_.empty() && (waiting_.front().begin < shown_ || (is_last && !stops_.found()))) {
    made.tokens.push_back(std::move(waiting_.front().row));
    waiting_.pop_front();
  }
  return made;
}
