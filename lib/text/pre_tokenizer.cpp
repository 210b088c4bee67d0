// SPDX-License-Identifier: Apache-2.0
#include "lib/text/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "lib/text/regex.h"
#include "lib/text/unicode.h"

namespace hg {
namespace {

enum class Behavior : uint8_t {
  removed,
  isolated,
  merged_with_previous,
  merged_with_next,
  contiguous,
};

Result<Behavior> behavior_from(const JsonAt& json) {
  constexpr std::pair<std::string_view, Behavior> kNames[] = {
      {"Removed", Behavior::removed},
      {"Isolated", Behavior::isolated},
      {"MergedWithPrevious", Behavior::merged_with_previous},
      {"MergedWithNext", Behavior::merged_with_next},
      {"Contiguous", Behavior::contiguous}};
  HG_TRY_ASSIGN(const std::string word, json.text());
  for (const auto& [name, behavior] : kNames)
    if (name == word) return behavior;
  return json.unknown("the behavior '", word, "' is unknown");
}

// Replaces each piece without an id by what `f(piece, out)` appends. Drops empty pieces.
template <class F>
Status each_piece(Pieces& pieces, const F& f) {
  Pieces out;
  for (Piece& piece : pieces) {
    if (piece.id >= 0) {
      out.push_back(std::move(piece));
      continue;
    }
    const size_t before = out.size();
    HG_TRY(f(piece, out));
    std::erase_if(out, [&, i = size_t{0}](const Piece& made) mutable {
      return i++ >= before && made.text.empty();
    });
  }
  pieces = std::move(out);
  return {};
}

void push_part(const Piece& piece, size_t begin, size_t end, Pieces& out) {
  if (begin == end) return;
  out.push_back({piece.text.substr(begin, end - begin), piece.at_start && begin == 0, -1});
}

// Merges spans according to the behavior, and appends the pieces.
void split(const Piece& piece, std::vector<Span> spans, Behavior behavior, Pieces& out) {
  std::vector<Span> joined;
  const bool from_behind = behavior == Behavior::merged_with_next;
  if (from_behind) std::reverse(spans.begin(), spans.end());
  bool previous = false;
  for (const Span& span : spans) {
    const bool joins = behavior == Behavior::contiguous
                           ? span.matches == previous
                           : (behavior == Behavior::merged_with_previous || from_behind) &&
                                 span.matches && !previous;
    if (joins && !joined.empty()) {
      (from_behind ? joined.back().begin : joined.back().end) = from_behind ? span.begin : span.end;
    } else if (behavior != Behavior::removed || !span.matches) {
      joined.push_back(span);
    }
    previous = span.matches;
  }
  if (from_behind) std::reverse(joined.begin(), joined.end());
  for (const Span& span : joined) push_part(piece, span.begin, span.end, out);
}

// One span per matching character, and one per run of others.
template <class F>
std::vector<Span> spans_where(std::string_view text, const F& matches) {
  std::vector<Span> spans;
  size_t covered = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (!matches(next_char(text, at))) continue;
    if (covered < begin) spans.push_back({covered, begin, false});
    spans.push_back({begin, at, true});
    covered = at;
  }
  if (covered < text.size()) spans.push_back({covered, text.size(), false});
  return spans;
}

template <class F>
PreTokenizer split_where(F matches, Behavior behavior) {
  return [matches, behavior](Pieces& pieces) {
    return each_piece(pieces, [&](Piece& piece, Pieces& out) {
      split(piece, spans_where(piece.text, matches), behavior, out);
      return Status();
    });
  };
}

PreTokenizer split_by(Regex regex, Behavior behavior, bool invert) {
  return [regex = std::move(regex), behavior, invert](Pieces& pieces) {
    return each_piece(pieces, [&](Piece& piece, Pieces& out) -> Status {
      HG_TRY_ASSIGN(std::vector<Span> spans, regex.find(piece.text));
      for (Span& span : spans) span.matches ^= invert;
      split(piece, std::move(spans), behavior, out);
      return {};
    });
  };
}

using Read = Result<PreTokenizer> (*)(const JsonAt&, int depth);

Result<PreTokenizer> read_byte_level(const JsonAt& json, int) {
  HG_TRY_ASSIGN(const bool add_prefix_space, json.flag("add_prefix_space", true));
  HG_TRY_ASSIGN(const bool use_regex, json.flag("use_regex", true));
  HG_TRY_ASSIGN(
      const Regex regex,
      Regex::compile(
          R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"));
  return PreTokenizer([regex, add_prefix_space, use_regex](Pieces& pieces) {
    return each_piece(pieces, [&](Piece& piece, Pieces& out) -> Status {
      if (add_prefix_space && !piece.text.starts_with(' ')) piece.text.insert(0, 1, ' ');
      const size_t before = out.size();
      if (use_regex) {
        HG_TRY_ASSIGN(std::vector<Span> spans, regex.find(piece.text));
        split(piece, std::move(spans), Behavior::isolated, out);
      } else {
        out.push_back(std::move(piece));
      }
      for (size_t i = before; i < out.size(); ++i) out[i].text = bytes_as_chars(out[i].text);
      return {};
    });
  });
}

enum class Prepend : uint8_t { always, first, never };

Result<PreTokenizer> read_metaspace(const JsonAt& json, int) {
  HG_TRY_ASSIGN(const std::string mark, json.member("replacement").text());
  if (count_chars(mark) != 1)
    return json.wrong("replacement must be one character, not '", mark, "'");
  HG_TRY_ASSIGN(const bool splits, json.flag("split", true));
  HG_TRY_ASSIGN(const bool adds, json.flag("add_prefix_space", true));
  HG_TRY_ASSIGN(const std::string scheme, json.text("prepend_scheme", adds ? "always" : "never"));
  if (scheme != "always" && scheme != "first" && scheme != "never")
    return json.unknown("the prepend_scheme '", scheme, "' is unknown");
  const Prepend prepend = scheme == "always"  ? Prepend::always
                          : scheme == "first" ? Prepend::first
                                              : Prepend::never;
  HG_TRY_ASSIGN(const Regex regex, Regex::literal(mark));
  return PreTokenizer([mark, splits, prepend, regex](Pieces& pieces) {
    return each_piece(pieces, [&](Piece& piece, Pieces& out) -> Status {
      std::string text;
      for (const char c : piece.text) c == ' ' ? text.append(mark) : text.append(1, c);
      const bool begins =
          prepend == Prepend::always || (prepend == Prepend::first && piece.at_start);
      if (begins && !text.starts_with(mark)) text.insert(0, mark);
      piece.text = std::move(text);
      if (!splits) {
        out.push_back(std::move(piece));
        return {};
      }
      HG_TRY_ASSIGN(std::vector<Span> spans, regex.find(piece.text));
      split(piece, std::move(spans), Behavior::merged_with_next, out);
      return {};
    });
  });
}

Result<PreTokenizer> read_split(const JsonAt& json, int) {
  HG_TRY_ASSIGN(Regex regex, pattern_from(json.member("pattern")));
  HG_TRY_ASSIGN(const Behavior behavior, behavior_from(json.member("behavior")));
  HG_TRY_ASSIGN(const bool invert, json.member("invert").flag());
  return split_by(std::move(regex), behavior, invert);
}

// Words and runs of other visible characters, as `\w+|[^\w\s]+` of Rust's regular expressions.
Result<PreTokenizer> read_whitespace(const JsonAt&, int) {
  return PreTokenizer([](Pieces& pieces) {
    return each_piece(pieces, [&](Piece& piece, Pieces& out) {
      const auto kind_of = [](char32_t c) { return is_word(c) ? 1 : is_white_space(c) ? 0 : 2; };
      size_t begin = 0;
      int kind = 0;
      for (size_t at = 0; at < piece.text.size();) {
        const size_t here = at;
        const int next = kind_of(next_char(piece.text, at));
        if (next == kind) continue;
        if (kind != 0) push_part(piece, begin, here, out);
        begin = here;
        kind = next;
      }
      if (kind != 0) push_part(piece, begin, piece.text.size(), out);
      return Status();
    });
  });
}

Result<PreTokenizer> read_whitespace_split(const JsonAt&, int) {
  return split_where(is_white_space, Behavior::removed);
}

Result<PreTokenizer> read_bert(const JsonAt&, int) {
  const PreTokenizer words = split_where(is_white_space, Behavior::removed);
  const PreTokenizer marks = split_where(is_punctuation, Behavior::isolated);
  return PreTokenizer([words, marks](Pieces& pieces) -> Status {
    HG_TRY(words(pieces));
    return marks(pieces);
  });
}

Result<PreTokenizer> read_punctuation(const JsonAt& json, int) {
  Behavior behavior = Behavior::isolated;
  const JsonAt at = json.member("behavior");
  if (!at.is_null()) {
    HG_TRY_ASSIGN(behavior, behavior_from(at));
  }
  return split_where(is_punctuation, behavior);
}

Result<PreTokenizer> read_digits(const JsonAt& json, int) {
  HG_TRY_ASSIGN(const bool individual, json.member("individual_digits").flag());
  return split_where(is_number, individual ? Behavior::isolated : Behavior::contiguous);
}

Result<PreTokenizer> read_delimiter(const JsonAt& json, int) {
  HG_TRY_ASSIGN(const std::string text, json.member("delimiter").text());
  if (count_chars(text) != 1)
    return json.wrong("delimiter must be one character, not '", text, "'");
  size_t at = 0;
  const char32_t delimiter = next_char(text, at);
  return split_where([delimiter](char32_t c) { return c == delimiter; }, Behavior::removed);
}

Result<PreTokenizer> read_fixed_length(const JsonAt& json, int) {
  HG_TRY_ASSIGN(const int32_t length, json.whole("length", 5));
  if (length == 0) return json.wrong("length must be at least 1");
  return PreTokenizer([length](Pieces& pieces) {
    return each_piece(pieces, [&](Piece& piece, Pieces& out) {
      size_t begin = 0;
      int32_t count = 0;
      for (size_t at = 0; at < piece.text.size();) {
        next_char(piece.text, at);
        if (++count < length && at < piece.text.size()) continue;
        push_part(piece, begin, at, out);
        begin = at;
        count = 0;
      }
      return Status();
    });
  });
}

// Splits where the script changes. Text before the first character with a script is dropped, as the
// package `tokenizers` does.
Result<PreTokenizer> read_unicode_scripts(const JsonAt&, int) {
  return PreTokenizer([](Pieces& pieces) {
    return each_piece(pieces, [&](Piece& piece, Pieces& out) {
      constexpr int kNone = -2;
      int last = kNone;
      size_t begin = std::string::npos;
      for (size_t at = 0; at < piece.text.size();) {
        const size_t here = at;
        const int script = script_of(next_char(piece.text, at));
        if (script == kAnyScript) continue;
        if (script != last) {
          if (begin != std::string::npos) push_part(piece, begin, here, out);
          begin = here;
        }
        last = script;
      }
      if (begin != std::string::npos) push_part(piece, begin, piece.text.size(), out);
      return Status();
    });
  });
}

Result<PreTokenizer> read_sequence(const JsonAt& json, int depth) {
  const JsonAt list = json.member("pretokenizers");
  HG_TRY(list.is_list());
  std::vector<PreTokenizer> steps;
  for (size_t i = 0; i < list->size(); ++i) {
    HG_TRY_ASSIGN(PreTokenizer step, pre_tokenizer_from(list.item(i), depth + 1));
    steps.push_back(std::move(step));
  }
  return PreTokenizer([steps = std::move(steps)](Pieces& pieces) -> Status {
    for (const PreTokenizer& step : steps) HG_TRY(step(pieces));
    return {};
  });
}

constexpr std::pair<std::string_view, Read> kReaders[] = {
    {"ByteLevel", read_byte_level},
    {"Metaspace", read_metaspace},
    {"Split", read_split},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
    {"BertPreTokenizer", read_bert},
    {"Punctuation", read_punctuation},
    {"Digits", read_digits},
    {"CharDelimiterSplit", read_delimiter},
    {"FixedLength", read_fixed_length},
    {"UnicodeScripts", read_unicode_scripts},
    {"Sequence", read_sequence},
};

}  // namespace

Result<PreTokenizer> pre_tokenizer_from(const JsonAt& json, int depth) {
  if (json.is_null()) return PreTokenizer([](Pieces&) { return Status(); });
  if (depth > kMostNested)
    return json.wrong("pre-tokenizers are nested more than ", kMostNested, " deep");
  HG_TRY_ASSIGN(const std::string type, json.member("type").text());
  for (const auto& [name, read] : kReaders)
    if (name == type) return read(json, depth);
  return json.unknown("the pre-tokenizer '", type, "' is unknown");
}

}  // namespace hg
