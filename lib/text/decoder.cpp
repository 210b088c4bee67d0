// SPDX-License-Identifier: Apache-2.0
#include "lib/text/decoder.h"

#include <utility>

#include "lib/graph/utf8.h"
#include "lib/text/normalizer.h"
#include "lib/text/regex.h"
#include "lib/text/unicode.h"

namespace hg {
namespace {

using Tokens = std::vector<std::string>;

// All occurrences from the left. An empty pattern occurs before each character and at the end.
std::string replace_all(std::string_view text, std::string_view pattern, std::string_view with) {
  std::string out;
  if (pattern.empty()) {
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      next_char(text, at);
      out.append(with).append(text.substr(begin, at - begin));
    }
    return out.append(with);
  }
  for (size_t found; (found = text.find(pattern)) != std::string_view::npos;) {
    out.append(text.substr(0, found)).append(with);
    text.remove_prefix(found + pattern.size());
  }
  return out.append(text);
}

// Removes spaces that English tokenizers put before punctuation and contractions.
std::string clean_up(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) text = replace_all(text, from, to);
  return text;
}

template <class F>
Decoder each_token(F f, bool is_local = true) {
  return {[f](Tokens& tokens) {
            for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = f(tokens[i], i, tokens.size());
            return Status();
          },
          is_local};
}

using Read = Result<Decoder> (*)(const JsonAt&, int depth);

Result<Decoder> read_byte_level(const JsonAt&, int) {
  return Decoder{[](Tokens& tokens) {
    std::string bytes;
    for (const std::string& token : tokens) {
      const size_t before = bytes.size();
      for (size_t at = 0; at < token.size();) {
        const int byte = byte_of_char(next_char(token, at));
        if (byte < 0) {  // not a byte-level token: uses its spelling
          bytes.resize(before);
          bytes += token;
          break;
        }
        bytes += static_cast<char>(byte);
      }
    }
    tokens = {valid_utf8(bytes)};
    return Status();
  }};
}

Result<Decoder> read_metaspace(const JsonAt& json, int) {
  HG_TRY_ASSIGN(const std::string mark, json.member("replacement").text());
  if (count_chars(mark) != 1)
    return json.wrong("replacement must be one character, not '", mark, "'");
  HG_TRY_ASSIGN(const bool adds, json.flag("add_prefix_space", true));
  HG_TRY_ASSIGN(const std::string scheme, json.text("prepend_scheme", adds ? "always" : "never"));
  const bool strips = scheme != "never";
  return each_token([mark, strips](const std::string& token, size_t i, size_t) {
    return replace_all(token, mark, i == 0 && strips ? "" : " ");
  });
}

Result<Decoder> read_word_piece(const JsonAt& json, int) {
  HG_TRY_ASSIGN(const std::string prefix, json.member("prefix").text());
  HG_TRY_ASSIGN(const bool cleans, json.member("cleanup").flag());
  return each_token([prefix, cleans](std::string token, size_t i, size_t) {
    if (i != 0) token = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
    return cleans ? clean_up(std::move(token)) : token;
  });
}

Result<Decoder> read_byte_fallback(const JsonAt&, int) {
  Decoder decoder{[](Tokens& tokens) {
    Tokens out;
    std::string bytes;
    const auto flush = [&] {
      if (is_utf8(bytes)) {
        if (!bytes.empty()) out.push_back(bytes);
      } else {
        for (size_t i = 0; i < bytes.size(); ++i) out.emplace_back("\xef\xbf\xbd");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      const int byte = byte_of_token(token);
      if (byte >= 0) {
        bytes += static_cast<char>(byte);
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    tokens = std::move(out);
    return Status();
  }};
  decoder.joins_bytes = true;
  return decoder;
}

Result<Decoder> read_fuse(const JsonAt&, int) {
  return Decoder{[](Tokens& tokens) {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens = {std::move(all)};
    return Status();
  }};
}

Result<Decoder> read_strip(const JsonAt& json, int) {
  HG_TRY_ASSIGN(const std::string content, json.member("content").text());
  if (count_chars(content) != 1)
    return json.wrong("content must be one character, not '", content, "'");
  HG_TRY_ASSIGN(const int32_t start, json.member("start").whole());
  HG_TRY_ASSIGN(const int32_t stop, json.member("stop").whole());
  return each_token(
      [content, start, stop](const std::string& token, size_t, size_t) {
        std::string_view text = token;
        for (int32_t i = 0; i < start && text.starts_with(content); ++i)
          text.remove_prefix(content.size());
        for (int32_t i = 0; i < stop && text.ends_with(content); ++i)
          text.remove_suffix(content.size());
        return std::string(text);
      },
      stop == 0);
}

Result<Decoder> read_replace(const JsonAt& json, int) {
  HG_TRY_ASSIGN(const Regex regex, pattern_from(json.member("pattern")));
  HG_TRY_ASSIGN(const std::string content, json.member("content").text());
  return Decoder{[regex, content](Tokens& tokens) -> Status {
    for (std::string& token : tokens) {
      HG_TRY_ASSIGN(const std::vector<Span> spans, regex.find(token));
      std::string out;
      for (const Span& span : spans)
        out += span.matches ? content : token.substr(span.begin, span.end - span.begin);
      token = std::move(out);
    }
    return {};
  }};
}

Result<Decoder> read_ctc(const JsonAt& json, int) {
  HG_TRY_ASSIGN(const std::string pad, json.member("pad_token").text());
  HG_TRY_ASSIGN(const std::string delimiter, json.member("word_delimiter_token").text());
  HG_TRY_ASSIGN(const bool cleans, json.member("cleanup").flag());
  return Decoder{[pad, delimiter, cleans](Tokens& tokens) {
                   Tokens out;
                   for (size_t i = 0; i < tokens.size(); ++i) {
                     if (i > 0 && tokens[i] == tokens[i - 1]) continue;
                     std::string text = replace_all(tokens[i], pad, "");
                     if (cleans) text = replace_all(clean_up(std::move(text)), delimiter, " ");
                     if (!text.empty()) out.push_back(std::move(text));
                   }
                   tokens = std::move(out);
                   return Status();
                 },
                 false};
}

Result<Decoder> read_bpe(const JsonAt& json, int) {
  HG_TRY_ASSIGN(const std::string suffix, json.text("suffix", "</w>"));
  return each_token(
      [suffix](const std::string& token, size_t i, size_t count) {
        return replace_all(token, suffix, i + 1 == count ? "" : " ");
      },
      false);
}

Result<Decoder> read_sequence(const JsonAt& json, int depth) {
  const JsonAt list = json.member("decoders");
  HG_TRY(list.is_list());
  std::vector<Decoder> steps;
  bool is_local = true, appends = true, joins_bytes = false, is_fused = false;
  for (size_t i = 0; i < list->size(); ++i) {
    HG_TRY_ASSIGN(Decoder step, decoder_from(list.item(i), depth + 1));
    const JsonAt type = list.item(i).member("type");
    // After a step that joins all tokens, later steps see the whole text as one token.
    const bool sees_tokens = !is_fused || *type == "Strip" || *type == "Fuse";
    is_local &= step.is_local && sees_tokens;
    appends &= step.appends && sees_tokens;
    joins_bytes |= step.joins_bytes;
    is_fused |= *type == "Fuse" || *type == "ByteLevel" || *type == "Sequence";
    steps.push_back(std::move(step));
  }
  return Decoder{[steps = std::move(steps)](Tokens& tokens) -> Status {
                   for (const Decoder& step : steps) HG_TRY(step.run(tokens));
                   return {};
                 },
                 is_local, appends, joins_bytes};
}

constexpr std::pair<std::string_view, Read> kReaders[] = {
    {"ByteLevel", read_byte_level},
    {"Metaspace", read_metaspace},
    {"WordPiece", read_word_piece},
    {"ByteFallback", read_byte_fallback},
    {"Fuse", read_fuse},
    {"Strip", read_strip},
    {"Replace", read_replace},
    {"CTC", read_ctc},
    {"BPEDecoder", read_bpe},
    {"Sequence", read_sequence},
};

}  // namespace

// A plus sign may replace the first digit, as in the package `tokenizers`.
int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  const int high = token[3] == '+' ? 0 : digit(token[3]), low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

Result<Decoder> decoder_from(const JsonAt& json, int depth) {
  if (json.is_null())
    return each_token(
        [](const std::string& token, size_t i, size_t) { return i == 0 ? token : " " + token; });
  if (depth > kMostNested)
    return json.wrong("decoders are nested more than ", kMostNested, " deep");
  HG_TRY_ASSIGN(const std::string type, json.member("type").text());
  for (const auto& [name, read] : kReaders)
    if (name == type) return read(json, depth);
  return json.unknown("the decoder '", type, "' is unknown");
}

}  // namespace hg
