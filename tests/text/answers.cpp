// SPDX-License-Identifier: Apache-2.0
// text_answers TOKENIZER.json: answers lines of standard input, for compare.py.
//   e HEX       ids of the text, its ids without added special tokens, its plain ids
//   d ID...     hexadecimal text of the ids without and with special tokens, and both again as
//   streams
// Answers are separated by '|'; "error" stands for a failure.
#include <iostream>
#include <sstream>
#include <string>

#include "hg/text/tokenizer.h"

namespace {

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

void print(const hg::Result<std::vector<int32_t>>& ids) {
  if (!ids.ok()) {
    std::cout << "error";
    return;
  }
  for (size_t i = 0; i < ids->size(); ++i) std::cout << (i == 0 ? "" : " ") << (*ids)[i];
}

void print(const hg::Result<std::string>& text) {
  if (!text.ok()) {
    std::cout << "error";
    return;
  }
  constexpr char kDigits[] = "0123456789abcdef";
  for (const char c : *text) std::cout << kDigits[(c >> 4) & 15] << kDigits[c & 15];
}

hg::Result<std::string> streamed(const hg::Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                                 bool skip_special) {
  hg::StreamDecoder stream(tokenizer, skip_special);
  std::string text;
  for (const int32_t id : ids) {
    HG_TRY_ASSIGN(const std::string piece, stream.push(id));
    text += piece;
  }
  HG_TRY_ASSIGN(const std::string rest, stream.finish());
  return text + rest;
}

}  // namespace

int main(int argc, char** argv) {
  const hg::Result<hg::Tokenizer> tokenizer = hg::Tokenizer::load(argc == 2 ? argv[1] : "");
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status().message() << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream rest(line.substr(1));
    if (line[0] == 'e') {
      std::string hex;
      rest >> hex;
      const std::string text = from_hex(hex);
      print(tokenizer->encode(text));
      std::cout << "|";
      print(tokenizer->encode(text, false));
      std::cout << "|";
      print(tokenizer->encode_plain(text));
    } else {
      std::vector<int32_t> ids;
      for (int32_t id; rest >> id;) ids.push_back(id);
      for (const bool skip : {true, false}) {
        print(tokenizer->decode(ids, skip));
        std::cout << "|";
      }
      print(streamed(*tokenizer, ids, true));
      std::cout << "|";
      print(streamed(*tokenizer, ids, false));
    }
    std::cout << "\n";
  }
}
