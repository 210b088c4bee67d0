// SPDX-License-Identifier: Apache-2.0
// The tokens of an answer as text that arrives in pieces. A piece never cuts a character, and a
// stop string is never part of one.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "hg/generator.h"
#include "hg/text/stop_strings.h"
#include "hg/text/tokenizer.h"

// A token and its probability, for `logprobs`.
struct TokenRow {
  std::string text;  // of this token alone; U+FFFD for a part of a character
  double log_probability = 0;
  int64_t offset = 0;                                             // in the answer, in characters
  std::vector<std::pair<std::string, double>> alternatives = {};  // most likely first
};

struct Piece {
  std::string text;
  std::vector<TokenRow> tokens = {};  // the tokens that begin in the pieces so far
  bool empty() const { return text.empty() && tokens.empty(); }
};

class Transcript {
 public:
  // An id and the logarithm of its probability.
  using Likely = std::vector<std::pair<int32_t, double>>;

  // `before`: the last id of the prompt. If `with_tokens` is false, pieces have only text.
  Transcript(hg::Tokenizer tokenizer, std::vector<std::string> stops, int32_t before,
             bool with_tokens);

  hg::Result<Piece> push(const hg::GeneratedToken& token, const Likely& alternatives);
  // The rest of the answer.
  hg::Result<Piece> finish();
  bool has_ended() const { return stops_.found(); }  // at a stop string

 private:
  struct Waiting {
    size_t begin;  // in the bytes of the text
    TokenRow row;
  };
  hg::Result<std::string> text_of(int32_t id) const;
  Piece piece(const std::string& text, bool is_last);

  hg::Tokenizer tokenizer_;
  hg::StreamDecoder decoder_;
  hg::StopStrings stops_;
  int32_t before_;
  bool with_tokens_;
  std::deque<Waiting> waiting_;  // tokens whose text has not been shown
  size_t decoded_ = 0, shown_ = 0;
  int64_t characters_ = 0;  // of the decoded text
};
