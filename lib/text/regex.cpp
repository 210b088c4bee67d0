// SPDX-License-Identifier: Apache-2.0
#include "lib/text/regex.h"

#include <oniguruma.h>

#include <mutex>

#include "lib/text/unicode.h"

namespace hg {
namespace {

const OnigUChar* bytes_of(const char* text) { return reinterpret_cast<const OnigUChar*>(text); }

std::string error_text(int code, OnigErrorInfo* info) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int size = onig_error_code_to_str(text, code, info);
  return valid_utf8(
      std::string_view(reinterpret_cast<const char*>(text), static_cast<size_t>(size)));
}

struct FreeRegion {
  void operator()(OnigRegion* region) const { onig_region_free(region, 1); }
};

}  // namespace

struct Regex::Compiled {
  regex_t* regex = nullptr;
  ~Compiled() {
    if (regex != nullptr) onig_free(regex);
  }
};

Result<Regex> Regex::compile(std::string_view pattern) {
  static std::once_flag once;
  std::call_once(once, [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
  });
  const auto compiled = std::make_shared<Compiled>();
  OnigErrorInfo info{};
  const int code = onig_new(&compiled->regex, bytes_of(pattern.data()),
                            bytes_of(pattern.data() + pattern.size()), ONIG_OPTION_NONE,
                            ONIG_ENCODING_UTF8, ONIG_SYNTAX_RUBY, &info);
  if (code != ONIG_NORMAL) {
    if (code == ONIGERR_MEMORY) return Status::no_memory();
    return corrupt_model("the regular expression '", pattern,
                         "' is invalid: ", error_text(code, &info));
  }
  Regex regex;
  regex.compiled_ = compiled;
  return regex;
}

Result<Regex> Regex::literal(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || (static_cast<uint8_t>(c) & 0x80) != 0 ||
                          c < ' ';
    if (!is_plain) pattern += '\\';
    pattern += c;
  }
  return compile(pattern);
}

Result<std::vector<Span>> Regex::find(std::string_view text) const {
  std::vector<Span> spans;
  HG_CHECK(text.size() <= kMostTextBytes, "a text has ", uint64_t{text.size()},
           " bytes for a regular expression, at most ", uint64_t{kMostTextBytes}, " are possible");
  if (text.empty()) return std::vector<Span>{{0, 0, false}};
  const std::unique_ptr<OnigRegion, FreeRegion> region(onig_region_new());
  if (region == nullptr) return Status::no_memory();
  const OnigUChar* const begin = bytes_of(text.data());
  const OnigUChar* const end = begin + text.size();
  size_t from = 0, covered = 0;
  bool any = false;
  while (from <= text.size()) {
    onig_region_clear(region.get());
    const int at = onig_search(compiled_->regex, begin, end, begin + from, end, region.get(),
                               ONIG_OPTION_NONE);
    if (at == ONIG_MISMATCH) break;
    if (at < 0) {
      if (at == ONIGERR_MEMORY) return Status::no_memory();
      return invalid_argument("a regular expression of the tokenizer fails on a text of ",
                              uint64_t{text.size()}, " bytes: ", error_text(at, nullptr));
    }
    const auto match_begin = static_cast<size_t>(region->beg[0]);
    const auto match_end = static_cast<size_t>(region->end[0]);
    // Skips an empty match directly after the last match, so that the search proceeds.
    if (match_begin == match_end && any && covered == match_end) {
      if (from >= text.size()) break;
      next_char(text, from);
      continue;
    }
    if (covered != match_begin) spans.push_back({covered, match_begin, false});
    spans.push_back({match_begin, match_end, true});
    covered = from = match_end;
    any = true;
  }
  if (covered != text.size()) spans.push_back({covered, text.size(), false});
  return spans;
}

Result<Regex> pattern_from(const JsonAt& json) {
  const JsonAt literal = json.member("String"), regex = json.member("Regex");
  if (literal.is_null() == regex.is_null())
    return json.wrong("expected an object with one member, String or Regex");
  HG_TRY_ASSIGN(const std::string text, literal.is_null() ? regex.text() : literal.text());
  const Result<Regex> compiled = literal.is_null() ? Regex::compile(text) : Regex::literal(text);
  if (!compiled.ok()) return json.wrong(compiled.status().message());
  return compiled;
}

}  // namespace hg
