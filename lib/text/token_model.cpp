// SPDX-License-Identifier: Apache-2.0
// Models of whole words, and the reader of all models of a tokenizer.json.
#include "lib/text/token_model.h"

#include <charconv>
#include <cmath>

#include "lib/text/unicode.h"

namespace hg {

void TokenModel::set_ids(Ids ids, std::map<int32_t, std::string> hidden) {
  ids_ = std::move(ids);
  hidden_ = std::move(hidden);
  for (const auto& [id, token] : hidden_) {
    tokens_.emplace(id, &token);
    size_ = std::max(size_, id + 1);
  }
  for (const auto& [token, id] : ids_) {
    const auto [at, is_new] = tokens_.emplace(id, &token);
    if (!is_new && token < *at->second) at->second = &token;  // independent of hash order
    size_ = std::max(size_, id + 1);
  }
}

std::optional<std::vector<int32_t>> ids_of_bytes(const TokenModel& model, std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::vector<int32_t> ids;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    const char token[] = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
    const auto id = model.id_of(std::string_view(token, sizeof token));
    if (!id) return std::nullopt;
    ids.push_back(*id);
  }
  return ids;
}

namespace {

class Words : public TokenModel {
 public:
  explicit Words(WordSettings settings) : settings_(std::move(settings)) {
    set_ids(std::move(settings_.ids));
    unknown_ = id_of(settings_.unknown);
  }

  Status encode(std::string_view text, std::vector<int32_t>& ids) const override {
    const size_t before = ids.size();
    bool is_known = true;
    if (!settings_.splits) {
      const auto id = id_of(text);
      is_known = id.has_value();
      if (id) ids.push_back(*id);
    } else {
      is_known = count_chars(text) <= static_cast<size_t>(settings_.longest_word);
      // Repeatedly takes the longest token that is a prefix of the rest.
      for (size_t begin = 0; is_known && begin < text.size();) {
        size_t end = text.size();
        std::optional<int32_t> id;
        for (; end > begin; end = previous_char(text, end)) {
          const std::string_view part = text.substr(begin, end - begin);
          id = begin > 0 && !settings_.prefix.empty() ? id_of(settings_.prefix + std::string(part))
                                                      : id_of(part);
          if (id) break;
        }
        is_known = id.has_value();
        if (id) ids.push_back(*id);
        begin = end;
      }
    }
    if (is_known) return {};
    ids.resize(before);
    if (!unknown_)
      return invalid_argument("the vocabulary has neither the word '", text,
                              "' nor the unknown token '", settings_.unknown, "'");
    ids.push_back(*unknown_);
    return {};
  }

 private:
  WordSettings settings_;
  std::optional<int32_t> unknown_;
};

Result<Ids> ids_from(const JsonAt& json) {
  HG_TRY(json.is_object());
  Ids ids;
  ids.reserve(json->size());
  for (const auto& [token, id] : json->items()) {
    const JsonAt at(id, json.path());
    if (!id.is_number_unsigned()) return at.wrong("the id of '", token, "' is not an integer");
    HG_TRY_ASSIGN(ids[token], at.whole());
  }
  return ids;
}

Result<std::pair<std::string, std::string>> merge_from(const JsonAt& json) {
  if (json->is_array()) {
    if (json->size() != 2)
      return json.wrong("a merge has ", uint64_t{json->size()}, " parts, not 2");
    HG_TRY_ASSIGN(std::string left, json.item(0).text());
    HG_TRY_ASSIGN(std::string right, json.item(1).text());
    return std::pair(std::move(left), std::move(right));
  }
  HG_TRY_ASSIGN(const std::string text, json.text());
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
    return json.wrong("the merge '", text, "' does not have two parts");
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

Result<std::unique_ptr<TokenModel>> read_bpe(const JsonAt& json) {
  BpeSettings settings;
  const JsonAt dropout = json.member("dropout");
  if (!dropout.is_null()) {
    HG_TRY_ASSIGN(const double rate, dropout.number());
    if (rate != 0) return dropout.unknown("dropout ", rate, " makes random tokens; set it to null");
  }
  HG_TRY_ASSIGN(settings.ids, ids_from(json.member("vocab")));
  const JsonAt merges = json.member("merges");
  HG_TRY(merges.is_list());
  settings.merges.reserve(merges->size());
  for (size_t i = 0; i < merges->size(); ++i) {
    const Json& one = (*merges)[i];
    if (one.is_string() && one.get_ref<const std::string&>().starts_with("#version")) continue;
    HG_TRY_ASSIGN(auto merge, merge_from(merges.item(i)));
    settings.merges.push_back(std::move(merge));
  }
  const JsonAt unknown = json.member("unk_token");
  if (!unknown.is_null()) {
    HG_TRY_ASSIGN(settings.unknown, unknown.text());
  }
  HG_TRY_ASSIGN(settings.prefix, json.text("continuing_subword_prefix", ""));
  HG_TRY_ASSIGN(settings.suffix, json.text("end_of_word_suffix", ""));
  HG_TRY_ASSIGN(settings.fuse_unknown, json.flag("fuse_unk", false));
  HG_TRY_ASSIGN(settings.byte_fallback, json.flag("byte_fallback", false));
  HG_TRY_ASSIGN(settings.ignore_merges, json.flag("ignore_merges", false));
  return make_bpe(std::move(settings), json.path());
}

// A number as the package reads its digits from a file: an integer of all digits times or by a
// power of ten, which may be off by an ulp. Splits with equal sums of scores depend on it.
double as_package_reads(double number) {
  char text[40];
  const char* end =
      std::to_chars(text, text + sizeof text, std::abs(number), std::chars_format::scientific).ptr;
  uint64_t digits = 0;
  int power = 0;
  const char* at = text;
  for (bool is_fraction = false; at < end && *at != 'e'; ++at) {
    if (*at == '.') {
      is_fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    power -= is_fraction;
  }
  if (at + 1 < end) {
    int exponent = 0;
    std::from_chars(at + (at[1] == '+' ? 2 : 1), end, exponent);
    power += exponent;
  }
  const auto ten_to = [](int exponent) {
    const std::string literal = str_cat("1e", exponent);
    double value = 0;
    std::from_chars(literal.data(), literal.data() + literal.size(), value);
    return value;
  };
  auto value = static_cast<double>(digits);
  for (; power < -308; power += 308) value /= 1e308;
  value = power < 0 ? value / ten_to(-power) : value * ten_to(power);
  return std::copysign(value, number);
}

Result<std::unique_ptr<TokenModel>> read_unigram(const JsonAt& json) {
  UnigramSettings settings;
  const JsonAt vocabulary = json.member("vocab");
  HG_TRY(vocabulary.is_list());
  for (size_t i = 0; i < vocabulary->size(); ++i) {
    const JsonAt entry = vocabulary.item(i);
    if (!entry->is_array() || entry->size() != 2) return entry.wrong("expected [token, score]");
    HG_TRY_ASSIGN(std::string token, entry.item(0).text());
    HG_TRY_ASSIGN(const double score, entry.item(1).number());
    if (!std::isfinite(score)) return entry.wrong("the score of '", token, "' is not finite");
    settings.tokens.emplace_back(std::move(token), as_package_reads(score));
  }
  const JsonAt unknown = json.member("unk_id");
  if (!unknown.is_null()) {
    HG_TRY_ASSIGN(settings.unknown, unknown.whole());
  }
  HG_TRY_ASSIGN(settings.byte_fallback, json.flag("byte_fallback", false));
  return make_unigram(std::move(settings), json.path());
}

Result<std::unique_ptr<TokenModel>> read_words(const JsonAt& json, bool splits) {
  WordSettings settings;
  settings.splits = splits;
  HG_TRY_ASSIGN(settings.ids, ids_from(json.member("vocab")));
  HG_TRY_ASSIGN(settings.unknown, json.member("unk_token").text());
  if (splits) {
    HG_TRY_ASSIGN(settings.prefix, json.member("continuing_subword_prefix").text());
    HG_TRY_ASSIGN(settings.longest_word, json.member("max_input_chars_per_word").whole());
  }
  return make_words(std::move(settings));
}

}  // namespace

Result<std::unique_ptr<TokenModel>> make_words(WordSettings settings) {
  return std::unique_ptr<TokenModel>(std::make_unique<Words>(std::move(settings)));
}

Result<std::unique_ptr<TokenModel>> token_model_from(const JsonAt& json) {
  HG_TRY(json.is_object());
  // Files from before 2021 have no type.
  const std::string guess = !json.member("merges").is_null()                     ? "BPE"
                            : !json.member("max_input_chars_per_word").is_null() ? "WordPiece"
                            : json.member("vocab")->is_array()                   ? "Unigram"
                                                                                 : "WordLevel";
  HG_TRY_ASSIGN(const std::string type, json.text("type", guess));
  if (type == "BPE") return read_bpe(json);
  if (type == "Unigram") return read_unigram(json);
  if (type == "WordPiece") return read_words(json, true);
  if (type == "WordLevel") return read_words(json, false);
  return json.unknown("the model '", type, "' is unknown");
}

}  // namespace hg
