// SPDX-License-Identifier: Apache-2.0
#include "converter/load/gguf/tokenizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "converter/core/failure.h"
#include "converter/load/gguf/end_tokens.h"
#include "converter/load/gguf/pre_tokenizers.h"
#include "lib/graph/utf8.h"

namespace hg::convert::gguf {
namespace {

constexpr std::string_view kSpace = "\u2581";  // SentencePiece's character for a space

// Kinds of tokens, with ggml's numbers.
enum TokenKind : int64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

std::string json(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out += "\\u00";
      out += kDigits[c >> 4];
      out += kDigits[c & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string in_turn(std::string_view type, std::string_view list,
                    const std::vector<std::string>& steps) {
  if (steps.empty()) return "null";
  if (steps.size() == 1) return steps[0];
  std::string out = str_cat(R"({"type": ")", type, R"(", ")", list, R"(": [)");
  for (size_t i = 0; i < steps.size(); ++i) out += (i > 0 ? ", " : "") + steps[i];
  return out + "]}";
}

class TokenizerReader {
 public:
  TokenizerReader(const File& file, int64_t vocabulary) : file_(file), rows_(vocabulary) {}

  TextFiles run() {
    TextFiles out;
    const auto model = text("model");
    if (!model || *model == "none" || *model == "no_vocab") {  // llama.cpp's name for no tokenizer
      out.note = "the file has no tokenizer";
    } else {
      read_tokens();
      add_configurations(out.files);
      if (*model == "gpt2") {
        out.note = write_byte_level();
      } else if (*model == "llama") {
        out.note = write_sentence_piece();
      } else {
        out.note = str_cat("its tokenizer '", shown(*model), "' is not supported");
      }
      if (out.note.empty()) out.files.push_back({"tokenizer.json", std::move(json_)});
    }
    if (const auto chat = file_.text("tokenizer.chat_template")) {
      if (!is_utf8(*chat)) damaged("tokenizer.chat_template is not UTF-8");
      out.files.push_back({"chat_template.jinja", *chat});
    }
    return out;
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw Failure{Exit::unreadable, str_cat(file_.label(), ": the tokenizer is damaged: ", what)};
  }
  static std::string shown(std::string_view text) { return escaped_utf8(text.substr(0, 80)); }

  static std::string key_of(std::string_view name) { return str_cat("tokenizer.ggml.", name); }
  std::optional<std::string> text(std::string_view name) const { return file_.text(key_of(name)); }
  template <class T>
  const std::vector<T>* list(std::string_view name) const {
    const auto entry = file_.metadata().find(key_of(name));
    if (entry == file_.metadata().end()) return nullptr;
    const auto* values = std::get_if<std::vector<T>>(&entry->second);
    if (values == nullptr) damaged(str_cat("'", key_of(name), "' is an array of another type"));
    return values;
  }

  void read_tokens() {
    const auto* tokens = list<std::string_view>("tokens");
    if (tokens == nullptr) damaged("'tokenizer.ggml.tokens' is missing");
    tokens_ = *tokens;
    if (static_cast<int64_t>(tokens_.size()) > rows_)
      damaged(str_cat("it has ", uint64_t{tokens_.size()}, " tokens, but the embedding has ", rows_,
                      " rows"));
    ids_.reserve(tokens_.size());
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (!is_utf8(tokens_[id]))
        damaged(str_cat("the token ", uint64_t{id}, " '", shown(tokens_[id]), "' is not UTF-8"));
      const auto [at, is_new] = ids_.emplace(tokens_[id], id);
      if (!is_new)
        damaged(str_cat("the tokens ", uint64_t{at->second}, " and ", uint64_t{id}, " are both '",
                        shown(tokens_[id]), "'"));
    }
    kinds_.assign(tokens_.size(), kNormal);
    if (const auto* kinds = list<int64_t>("token_type")) {
      check_count("token_type", kinds->size());
      kinds_ = *kinds;
    }
    for (size_t id = 0; id < kinds_.size(); ++id)
      if (kinds_[id] < kNormal || kinds_[id] > kByte)
        damaged(str_cat("the token ", uint64_t{id}, " has the type ", kinds_[id],
                        ", which is not from 1 to 6"));
    for (const std::string_view name :
         {"bos", "eos", "eot", "eom", "unknown", "padding", "fim_pad", "fim_rep", "fim_sep"})
      check_id(name);
    ends_ = end_tokens([&](std::string_view key) { return id_of(key); },
                       [&](std::string_view text) -> std::optional<int64_t> {
                         const auto at = ids_.find(text);
                         if (at == ids_.end()) return std::nullopt;
                         return static_cast<int64_t>(at->second);
                       });
    // Some files call these normal tokens. As such, they would be split in a prompt.
    for (const int64_t id : ends_) {
      int64_t& kind = kinds_[static_cast<size_t>(id)];
      if (kind == kNormal && is_end_text(token(id))) kind = kControl;
    }
  }
  void check_count(std::string_view name, size_t count) const {
    if (count != tokens_.size())
      damaged(str_cat("it has ", uint64_t{tokens_.size()}, " tokens, but '", key_of(name), "' has ",
                      uint64_t{count}, " values"));
  }
  void check_id(std::string_view name) const {
    const auto id = id_of(name);
    if (id && (*id < 0 || *id >= static_cast<int64_t>(tokens_.size())))
      damaged(str_cat("'", key_of(name), "_token_id' is ", *id, ", but it has ",
                      uint64_t{tokens_.size()}, " tokens"));
  }
  std::optional<int64_t> id_of(std::string_view name) const {
    const auto id = file_.integer(key_of(str_cat(name, "_token_id")));
    if (id || text("model") != "llama") return id;
    // The ids that SentencePiece's trainer gives them.
    const int64_t usual = name == "unknown" ? 0 : name == "bos" ? 1 : name == "eos" ? 2 : -1;
    if (usual < 0 || usual >= static_cast<int64_t>(tokens_.size())) return std::nullopt;
    return usual;
  }
  std::string_view token(int64_t id) const { return tokens_[static_cast<size_t>(id)]; }

  void add_configurations(std::vector<Model::Attachment>& files) const {
    std::string generation, texts;
    const auto add = [](std::string& out, std::string_view name, const std::string& value) {
      out += str_cat(out.empty() ? "{" : ", ", json(name), ": ", value);
    };
    if (const auto id = id_of("bos")) add(generation, "bos_token_id", std::to_string(*id));
    std::string end_list;
    for (const int64_t id : ends_) end_list += str_cat(end_list.empty() ? "[" : ", ", id);
    if (!ends_.empty()) add(generation, "eos_token_id", end_list + "]");
    constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"bos", "bos_token"},
                                                                        {"eos", "eos_token"},
                                                                        {"unknown", "unk_token"},
                                                                        {"padding", "pad_token"}};
    for (const auto& [name, member] : kNames)
      if (const auto id = id_of(name)) add(texts, member, json(token(*id)));
    if (!generation.empty()) files.push_back({"generation_config.json", generation + "}\n"});
    if (!texts.empty()) files.push_back({"tokenizer_config.json", texts + "}\n"});
  }

  // Writes byte-pair merges of UTF-8 bytes, which are represented by printable characters.
  std::string write_byte_level() {
    const auto name = text("pre");
    if (!name) return "it does not name its pre-tokenizer";
    const PreTokenizerKind* kind = pre_tokenizer_kind(*name);
    if (kind == nullptr) return str_cat("its pre-tokenizer '", shown(*name), "' is not supported");
    const auto* merges = list<std::string_view>("merges");
    if (merges == nullptr) damaged("'tokenizer.ggml.merges' is missing");
    std::vector<std::pair<std::string_view, std::string_view>> pairs;
    pairs.reserve(merges->size());
    for (size_t i = 0; i < merges->size(); ++i) {
      const std::string_view merge = (*merges)[i];
      const size_t space = merge.find(' ', 1);
      if (space == std::string_view::npos) damaged_merge(i, merge, "does not have two parts");
      const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
      if (!ids_.contains(left) || !ids_.contains(right) || !ids_.contains(str_cat(left, right)))
        damaged_merge(i, merge, "does not join two tokens into a third");
      pairs.emplace_back(left, right);
    }
    std::vector<std::string> splits;
    add_splits(splits, kind->before);
    splits.push_back(str_cat(R"({"type": "ByteLevel", "add_prefix_space": false, )",
                             R"("trim_offsets": true, "use_regex": )", kind->splits_words, "}"));
    add_splits(splits, kind->behind);
    write(kind->composes ? R"({"type": "NFC"})" : "null",
          in_turn("Sequence", "pretokenizers", splits),
          R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, )"
          R"("use_regex": true})",
          str_cat(R"("unk_token": null, "fuse_unk": false, "byte_fallback": false, )",
                  R"("ignore_merges": )", kind->whole_words),
          pairs, kind->adds_bos);
    return {};
  }
  [[noreturn]] void damaged_merge(size_t i, std::string_view merge, std::string_view what) const {
    damaged(str_cat("the merge ", uint64_t{i}, " '", shown(merge), "' ", what));
  }

  static void add_splits(std::vector<std::string>& out, std::string_view steps) {
    while (!steps.empty()) {
      const size_t end = std::min(steps.find('\n'), steps.size());
      const std::string_view step = steps.substr(0, end);
      steps.remove_prefix(std::min(end + 1, steps.size()));
      if (step == "digits" || step == "digit runs")
        out.push_back(
            str_cat(R"({"type": "Digits", "individual_digits": )", step == "digits", "}"));
      else if (step == "punctuation")
        out.push_back(R"({"type": "Punctuation", "behavior": "Contiguous"})");
      else
        out.push_back(str_cat(R"({"type": "Split", "pattern": {"Regex": )", json(step),
                              R"(}, "behavior": "Isolated", "invert": false})"));
    }
  }

  // Writes SentencePiece's byte-pair merges. SentencePiece first joins the neighbors whose token
  // has the best score, and the leftmost of equal scores. Merges sorted by score do the same if all
  // scores differ. If several pairs make the same token, pairs with a longer first part come first,
  // as transformers writes them. Tokens that repeat one character, such as spaces, may have equal
  // scores. The same order is right for them, because joining from the left makes the leftmost part
  // the longest.
  std::string write_sentence_piece() {
    const auto* scores = list<double>("scores");
    if (scores == nullptr) return "it has no scores";
    check_count("scores", scores->size());
    if (tokens_.empty()) damaged("it has no tokens");
    const int64_t unknown = *id_of("unknown");
    struct Pair {
      double score;
      size_t left_chars, right_chars, id, left_bytes;
    };
    std::vector<Pair> pairs;
    const auto joins = [&](std::string_view part) {
      const auto at = ids_.find(part);
      if (at == ids_.end()) return false;
      const int64_t kind = kinds_[at->second];
      // As an added token, a run of spaces does not match a text, which has other spaces.
      return kind == kNormal || kind == kUnused ||
             (kind == kUserDefined && part.starts_with(kSpace) && is_run(part));
    };
    std::unordered_map<double, size_t> by_score;
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (!joins(tokens_[id])) continue;
      const double score = (*scores)[id];
      if (!std::isfinite(score))
        damaged(str_cat("the score of the token ", uint64_t{id}, " is not finite"));
      const std::string_view whole = tokens_[id];
      const size_t before = pairs.size();
      size_t left = 1;
      const size_t chars = count_chars(whole);
      for (size_t at = 1, begin = 0; chars > 1 && at <= whole.size(); ++at) {
        if (at < whole.size() && (static_cast<uint8_t>(whole[at]) & 0xc0) == 0x80) continue;
        // SentencePiece may join a character without a token with a neighbor; here it would start
        // as bytes.
        if (!joins(whole.substr(begin, at - begin)))
          return str_cat("its token ", uint64_t{id}, " '", shown(whole), "' has the character '",
                         whole.substr(begin, at - begin), "', which is not a token");
        begin = at;
        if (at == whole.size()) break;
        if (joins(whole.substr(0, at)) && joins(whole.substr(at)))
          pairs.push_back({score, left, chars - left, id, at});
        ++left;
      }
      if (pairs.size() == before) continue;
      const auto [at, is_new] = by_score.emplace(score, id);
      if (!is_new && !(is_run(whole) && is_run(tokens_[at->second])))
        return str_cat("its tokens ", uint64_t{at->second}, " '", shown(tokens_[at->second]),
                       "' and ", uint64_t{id}, " '", shown(whole), "' have the same score");
    }
    std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
      if (a.score != b.score) return a.score > b.score;
      return a.left_chars > b.left_chars;
    });
    std::vector<std::pair<std::string_view, std::string_view>> merges;
    merges.reserve(pairs.size());
    for (const Pair& pair : pairs)
      merges.emplace_back(tokens_[pair.id].substr(0, pair.left_bytes),
                          tokens_[pair.id].substr(pair.left_bytes));
    const bool prefix = file_.flag(key_of("add_space_prefix")).value_or(true);
    const std::string mark = json(kSpace);
    const std::string spaces =
        str_cat(R"({"type": "Replace", "pattern": {"String": " "}, "content": )", mark, "}");
    std::vector<std::string> changes, decoders;
    if (prefix) changes.push_back(str_cat(R"({"type": "Prepend", "prepend": )", mark, "}"));
    changes.push_back(spaces);
    decoders.push_back(
        str_cat(R"({"type": "Replace", "pattern": {"String": )", mark, R"(}, "content": " "})"));
    decoders.push_back(R"({"type": "ByteFallback"})");
    decoders.push_back(R"({"type": "Fuse"})");
    if (prefix) decoders.push_back(R"({"type": "Strip", "content": " ", "start": 1, "stop": 0})");
    write(in_turn("Sequence", "normalizers", changes), "null",
          in_turn("Sequence", "decoders", decoders),
          str_cat(R"("unk_token": )", json(token(unknown)),
                  R"(, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false)"),
          merges, true);
    return {};
  }
  // Returns whether the text repeats a single character.
  static bool is_run(std::string_view text) {
    size_t bytes = 1;
    while (bytes < text.size() && (static_cast<uint8_t>(text[bytes]) & 0xc0) == 0x80) ++bytes;
    return text.substr(bytes) == text.substr(0, text.size() - bytes);
  }
  static size_t count_chars(std::string_view text) {
    return static_cast<size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
  }

  // In Phi-3, special tokens absorb the spaces after them. GGUF files do not state this.
  bool takes_spaces(std::string_view token) const {
    return file_.text("general.architecture") == "phi3" && text("model") == "llama" &&
           token != "<unk>" && token != "<s>" && token != "<|endoftext|>";
  }

  std::string added_tokens() const {
    std::string out;
    for (size_t id = 0; id < tokens_.size(); ++id) {
      const int64_t kind = kinds_[id];
      if ((kind != kControl && kind != kUserDefined && kind != kUnknown) || tokens_[id].empty())
        continue;
      out += str_cat(out.empty() ? "\n" : ",\n", R"({"id": )", uint64_t{id}, R"(, "content": )",
                     json(tokens_[id]), R"(, "single_word": false, "lstrip": false, )",
                     R"("rstrip": )", takes_spaces(tokens_[id]),
                     R"(, "normalized": false, "special": )", kind != kUserDefined, "}");
    }
    return out;
  }

  std::string post_processor(bool adds_bos) const {
    const auto flag = [&](std::string_view name, bool otherwise) {
      return file_.flag(key_of(name)).value_or(otherwise);
    };
    const auto first = flag("add_bos_token", adds_bos) ? id_of("bos") : std::nullopt;
    const auto last = flag("add_eos_token", false) ? id_of("eos") : std::nullopt;
    if (!first && !last) return "null";
    std::string parts, specials;
    const auto add = [&](int64_t id) {
      parts += str_cat(parts.empty() ? "" : ", ", R"({"SpecialToken": {"id": )", json(token(id)),
                       R"(, "type_id": 0}})");
      if (specials.find(json(token(id)) + ": ") == std::string::npos)
        specials +=
            str_cat(specials.empty() ? "" : ", ", json(token(id)), R"(: {"id": )", json(token(id)),
                    R"(, "ids": [)", id, R"(], "tokens": [)", json(token(id)), "]}");
    };
    if (first) add(*first);
    parts += str_cat(parts.empty() ? "" : ", ", R"({"Sequence": {"id": "A", "type_id": 0}})");
    if (last) add(*last);
    return str_cat(R"({"type": "TemplateProcessing", "single": [)", parts, R"(], "pair": [)", parts,
                   R"(, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {)", specials,
                   "}}");
  }

  void write(const std::string& normalizer, const std::string& pre_tokenizer,
             const std::string& decoder, const std::string& settings,
             const std::vector<std::pair<std::string_view, std::string_view>>& merges,
             bool adds_bos) {
    json_ = str_cat(
        "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n", "\"added_tokens\": [",
        added_tokens(), "],\n\"normalizer\": ", normalizer, ",\n\"pre_tokenizer\": ", pre_tokenizer,
        ",\n\"post_processor\": ", post_processor(adds_bos), ",\n\"decoder\": ", decoder,
        ",\n\"model\": {\"type\": \"BPE\", \"dropout\": null, ", settings,
        ", \"continuing_subword_prefix\": null, \"end_of_word_suffix\": null,\n", "\"vocab\": {");
    for (size_t id = 0; id < tokens_.size(); ++id) {
      json_ += id > 0 ? ",\n" : "\n";
      json_ += json(tokens_[id]);
      json_ += ": ";
      json_ += std::to_string(id);
    }
    json_ += "},\n\"merges\": [";
    for (size_t i = 0; i < merges.size(); ++i) {
      json_ += i > 0 ? ",\n[" : "\n[";
      json_ += json(merges[i].first);
      json_ += ", ";
      json_ += json(merges[i].second);
      json_ += ']';
    }
    json_ += "]}}\n";
  }

  const File& file_;
  const int64_t rows_;
  std::vector<std::string_view> tokens_;
  std::vector<int64_t> kinds_;
  std::vector<int64_t> ends_;  // ids of tokens that end an answer
  std::unordered_map<std::string_view, size_t> ids_;
  std::string json_;
};

}  // namespace

TextFiles text_files(const File& file, int64_t vocabulary) {
  return TokenizerReader(file, vocabulary).run();
}

}  // namespace hg::convert::gguf
