// SPDX-License-Identifier: Apache-2.0
// Tokenizers: the ids of the package `tokenizers`, round trips, streams and damaged files.
// tests/text/compare.py compares many more kinds of tokenizers with the package.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "hg/hg.h"
#include "hg/text/stop_strings.h"
#include "hg/text/tokenizer.h"
#include "tests/support/must.h"

namespace hg {
namespace {

using Ids = std::vector<int32_t>;

// Byte-level BPE: 256 bytes, a few merges, a special and an ordinary added token.
std::string byte_level() {
  std::string vocabulary;
  int id = 0;
  const auto add = [&](const std::string& token) {
    vocabulary += str_cat(id == 0 ? "" : ",", "\"", token, "\":", id);
    ++id;
  };
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    const int c = is_printable ? byte : next++;
    char text[8];
    std::snprintf(text, sizeof text, "\\u%04x", c);
    add(text);
  }
  for (const char* token : {"he", "ll", "hell", "hello", "\\u0120w", "or"}) add(token);
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[
    {"id":262,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
    {"id":263,"content":"[X]","single_word":false,"lstrip":true,"rstrip":false,"normalized":true,"special":false}],
    "normalizer":null,
    "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
    "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},
      {"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[262],"tokens":["<s>"]}}},
    "decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},
    "model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,
      "fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":{)" +
         vocabulary +
         R"(},"merges":[["h","e"],["l","l"],["he","ll"],["hell","o"],["\u0120","w"],["o","r"]]}})";
}

// SentencePiece's BPE with byte fallback, as in Llama 2.
const char kFallback[] =
    R"({"added_tokens":[],"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},
    {"type":"Replace","pattern":{"String":" "},"content":"_"}]},"pre_tokenizer":null,"post_processor":null,
    "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"_"},"content":" "},
    {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
    "model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,
    "vocab":{"<unk>":0,"<0x41>":1,"<0xC3>":2,"<0xA9>":3,"_":4,"a":5,"b":6,"_a":7},"merges":["_ a"]}})";
const char kUnigram[] =
    R"({"added_tokens":[],"normalizer":{"type":"NFKC"},"pre_tokenizer":{"type":"Metaspace","replacement":"_",
    "prepend_scheme":"always","split":true},"post_processor":null,"decoder":{"type":"Metaspace","replacement":"_",
    "prepend_scheme":"always","split":true},"model":{"type":"Unigram","unk_id":0,"byte_fallback":false,
    "vocab":[["<unk>",0.0],["_",-2.0],["a",-3.0],["b",-3.5],["ab",-4.0],["_ab",-7.0],["fi",-5.0]]}})";
const char kWordPiece[] =
    R"({"added_tokens":[{"id":0,"content":"[UNK]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,
    "special":true}],"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,
    "strip_accents":null,"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},
    "post_processor":{"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]},
    "decoder":{"type":"WordPiece","prefix":"##","cleanup":true},"model":{"type":"WordPiece","unk_token":"[UNK]",
    "continuing_subword_prefix":"##","max_input_chars_per_word":100,
    "vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"token":3,"##izer":4,"##s":5,".":6,"!":7,"a":8}}})";

Tokenizer tokenizer(const std::string& json) { return must(Tokenizer::from_json(json)); }

// Random text in several scripts.
std::string random_text(std::mt19937& draw) {
  const std::string parts[] = {"hello",
                               " world",
                               "<s>",
                               "[X]",
                               " ",
                               "\n\n",
                               "don't",
                               "123",
                               "a",
                               "b",
                               "\xc3\xa9",
                               "\xe6\x97\xa5\xe6\x9c\xac",
                               "\xf0\x9f\x98\x80",
                               "_",
                               "\t"};
  std::string text;
  for (size_t i = draw() % 12; i > 0; --i) text += parts[draw() % std::size(parts)];
  return text;
}

// The package does not round the digits of a score to the nearest number.
TEST(Tokenizer, UnigramSplitsWithEqualSumsAreThoseOfThePackage) {
  const Tokenizer tokenizer = must(Tokenizer::from_json(
      R"({"added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":null,
          "model":{"type":"Unigram","unk_id":0,"vocab":[["?",0.0],["a",-2.7577593326568604],
          ["aa",-2.1932425498962402]]}})"));
  EXPECT_EQ(must(tokenizer.encode("aaaaa")), (Ids{2, 2, 1}));
  EXPECT_EQ(must(tokenizer.encode("aaaaaaa")), (Ids{2, 2, 1, 2}));
}

// As the package does: a token without lstrip reads spaces again that the token before took.
TEST(Tokenizer, AddedTokensOfSpacesBehindTokensThatTakeSpaces) {
  const auto added = [](int id, const char* text, bool left, bool right) {
    const auto flag = [](bool is) { return is ? "true" : "false"; };
    return str_cat(R"({"single_word":false,"normalized":false,"special":false,"id":)", id,
                   R"(,"content":")", text, R"(","lstrip":)", flag(left), R"(,"rstrip":)",
                   flag(right), "}");
  };
  const Tokenizer tokenizer = must(Tokenizer::from_json(str_cat(
      R"({"added_tokens":[)", added(2, "<a>", false, true), ",", added(3, "\\n\\n", false, true),
      ",", added(4, "  ", true, false), ",", added(5, "\\t", false, false),
      R"(],"normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":null,
                 "model":{"type":"WordLevel","vocab":{"?":0,"x":1},"unk_token":"?"}})")));
  const std::pair<const char*, Ids> cases[] = {
      {"<a>\n\nx", {2, 3, 1}}, {"\n\n\n\n\n\nx", {3, 3, 3, 1}},      {"<a>  x", {2, 1}},
      {"<a>\tx", {2, 5, 1}},   {"<a> \t\n\n x<a>", {2, 5, 3, 1, 2}}, {"  \n\n  x", {4, 3, 1}}};
  for (const auto& [text, ids] : cases) EXPECT_EQ(must(tokenizer.encode(text)), ids) << text;
}

TEST(Tokenizer, IdsAreThoseOfThePackage) {
  const struct {
    std::string json, text;
    Ids ids;
    std::string decoded;
  } kCases[] = {
      {byte_level(), "", {262}, ""},
      {byte_level(), "hello world", {262, 259, 260, 261, 108, 100}, "hello world"},
      {byte_level(), "hi [X]<s>\xc3\xa9", {262, 104, 105, 263, 262, 195, 169}, "hi[X]\xc3\xa9"},
      {kFallback, "", {}, ""},
      {kFallback, "a bA\xc3\xa9", {7, 4, 6, 1, 2, 3}, "a bA\xc3\xa9"},
      {kFallback, "a\xc3\xaa\xc3\xaa", {7, 0}, "a<unk>"},
      {kUnigram, "ab \xef\xac\x81 zz", {1, 4, 1, 6, 1, 0}, "ab fi <unk>"},
      {kWordPiece,
       "Tokenizers. \xc3\x80 q!",
       {1, 3, 4, 5, 6, 8, 0, 7, 2},
       "[CLS] tokenizers. a! [SEP]"},
      // Punctuation since Unicode 14, which the package does not know: it gives one unknown word.
      {kWordPiece, "a\xd8\x9d\x61", {1, 0, 2}, "[CLS] [SEP]"},
  };
  for (const auto& one : kCases) {
    SCOPED_TRACE(one.text);
    const Tokenizer t = tokenizer(one.json);
    EXPECT_EQ(must(t.encode(one.text)), one.ids);
    EXPECT_EQ(must(t.decode(one.ids)), one.decoded);
  }
}

TEST(Tokenizer, SpecialTokensOfUsersAreText) {
  const Tokenizer t = tokenizer(byte_level());
  EXPECT_EQ(must(t.encode_plain("<s>")), (Ids{'<', 's', '>'}));
  EXPECT_EQ(must(t.encode("<s>", false)), (Ids{262}));
  EXPECT_EQ(must(t.decode(Ids{262, 'a'}, false)), "<s>a");
  EXPECT_EQ(t.id_of("<s>"), 262);
  EXPECT_EQ(t.token_of(260), "\xc4\xa0w");
  EXPECT_TRUE(t.is_special(262) && !t.is_special(263));
  EXPECT_EQ(t.vocabulary_size(), 264);
  ASSERT_EQ(t.added_tokens().size(), 2u);
  EXPECT_FALSE(t.decode(Ids{264}).ok() || t.decode(Ids{-1}).ok());
}

TEST(Tokenizer, BytesThatAreNotUtf8BecomeReplacementCharacters) {
  const Tokenizer t = tokenizer(byte_level());
  for (const auto& [text, valid] : {std::pair("\xff", "\xef\xbf\xbd"),
                                    {"\xe2\x82", "\xef\xbf\xbd"},
                                    {"\xe2\x82z", "\xef\xbf\xbdz"},
                                    {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}})
    EXPECT_EQ(must(t.decode(must(t.encode(text)))), valid);
}

TEST(Tokenizer, ByteLevelTextComesBack) {
  const Tokenizer t = tokenizer(byte_level());
  std::mt19937 draw(1);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_text(draw);
    if (text.find("[X]") != std::string::npos) continue;  // it removes the spaces before it
    EXPECT_EQ(must(t.decode(must(t.encode_plain(text)))), text);
    EXPECT_EQ(must(t.decode(must(t.encode(text, false)), false)), text);
  }
}

TEST(StreamDecoder, PiecesConcatenate) {
  std::mt19937 draw(2);
  for (const std::string& json :
       {byte_level(), std::string(kFallback), std::string(kUnigram), std::string(kWordPiece)}) {
    const Tokenizer t = tokenizer(json);
    for (int i = 0; i < 500; ++i) {
      Ids ids(draw() % 60);
      for (int32_t& id : ids)
        id = static_cast<int32_t>(draw() % static_cast<uint32_t>(t.vocabulary_size()));
      for (const bool skip : {true, false}) {
        StreamDecoder stream(t, skip);
        std::string text;
        for (const int32_t id : ids) text += must(stream.push(id));
        text += must(stream.finish());
        EXPECT_EQ(text, must(t.decode(ids, skip)));
        EXPECT_EQ(must(stream.finish()), "");
      }
    }
  }
}

TEST(StreamDecoder, CharactersAreNotCut) {
  StreamDecoder stream(tokenizer(byte_level()));
  EXPECT_EQ(must(stream.push('a')), "a");
  EXPECT_EQ(must(stream.push(0xf0)), "");
  EXPECT_EQ(must(stream.push(0x9f)), "");
  EXPECT_FALSE(stream.push(999).ok());  // it changes nothing
  EXPECT_EQ(must(stream.push(0x98)), "");
  EXPECT_EQ(must(stream.push(0x80)), "\xf0\x9f\x98\x80");
  EXPECT_EQ(must(stream.push(0xe2)), "");
  EXPECT_EQ(must(stream.finish()), "\xef\xbf\xbd");
}

TEST(TokenizerFiles, DamagedFilesAreRefusedOrRead) {
  std::mt19937 draw(3);
  for (const std::string& json :
       {byte_level(), std::string(kFallback), std::string(kUnigram), std::string(kWordPiece)}) {
    for (int i = 0; i < 300; ++i) {
      std::string damaged = json;
      damaged.resize(draw() % damaged.size());
      const Result<Tokenizer> cut = Tokenizer::from_json(damaged, "cut.json");
      ASSERT_FALSE(cut.ok());
      EXPECT_TRUE(cut.status().message().starts_with("cut.json: ")) << cut.status().message();
      damaged = json;
      for (int times = 1 + static_cast<int>(draw() % 3); times > 0; --times)
        damaged[draw() % damaged.size()] =
            static_cast<char>(draw() % 2 == 0 ? draw() : "0129-\"{}[],"[draw() % 11]);
      const Result<Tokenizer> flipped = Tokenizer::from_json(damaged, "flipped.json");
      if (!flipped.ok()) {
        EXPECT_TRUE(flipped.status().message().starts_with("flipped.json: "));
        continue;
      }
      const Result<Ids> ids = flipped->encode(random_text(draw));
      if (ids.ok()) (void)flipped->decode(*ids);
    }
  }
}

// A replacement in the file, and part of the expected message.
TEST(TokenizerFiles, MessagesSayWhereAndWhat) {
  const struct {
    std::string_view from, to, message;
  } kCases[] = {
      {"\"BPE\"", "\"Neural\"", "model: the model 'Neural' is unknown"},
      {"\"Prepend\"", "\"Append\"",
       "normalizer.normalizers[0]: the normalizer 'Append' is unknown"},
      {"\"Fuse\"", "\"Defuse\"", "the decoder 'Defuse' is unknown"},
      {"\"pre_tokenizer\":null", "\"pre_tokenizer\":{\"type\":\"X\"}",
       "the pre-tokenizer 'X' is unknown"},
      {"\"post_processor\":null", "\"post_processor\":{\"type\":\"X\"}",
       "the post-processor 'X' is unknown"},
      {"_ a", "_ b", "makes '_b', which is not in the vocabulary"},
      {"_ a", "_a", "the merge '_a' does not have two parts"},
      {"\"a\":5", "\"a\":-5", "is not an integer"},
      {"\"a\":5", "\"a\":2147483647", "2147483646"},
      {"\"unk_token\":\"<unk>\"", "\"unk_token\":\"<none>\"",
       "the unknown token '<none>' has no id"},
      {"\"byte_fallback\":true", "\"byte_fallback\":1", "expected true or false, got number"},
      {"\"byte_fallback\":true", "\"dropout\":0.5", "dropout 0.5"},
      {"{\"String\":\" \"}", "{\"Regex\":\"(\"}", "the regular expression '(' is invalid"},
  };
  for (const auto& one : kCases) {
    std::string json = kFallback;
    const size_t at = json.find(one.from);
    ASSERT_NE(at, std::string::npos) << one.from;
    json.replace(at, one.from.size(), one.to);
    const Result<Tokenizer> made = Tokenizer::from_json(json, "t.json");
    ASSERT_FALSE(made.ok()) << one.to;
    const std::string message(made.status().message());
    EXPECT_TRUE(message.starts_with("t.json: ") && message.find(one.message) != std::string::npos)
        << message;
  }
  EXPECT_EQ(Tokenizer::load("no/such/file.json").status().code(), Code::not_found);
  for (const char* json : {"", "[]", "{}", "null", "{\"model\":3}"})
    EXPECT_FALSE(Tokenizer::from_json(json).ok()) << json;
}

TEST(TokenizerFiles, DeepNestingIsRefused) {
  std::string nested = "null";
  for (int i = 0; i < 100; ++i)
    nested = str_cat(R"({"type":"Sequence","normalizers":[)", nested, "]}");
  std::string json = kUnigram;
  json.replace(json.find(R"({"type":"NFKC"})"), 15, nested);
  const Result<Tokenizer> made = Tokenizer::from_json(json);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(std::string(made.status().message()).find("nested"), std::string::npos);
  EXPECT_FALSE(Tokenizer::from_json(std::string(1 << 20, '[')).ok());
}

TEST(StopStrings, TextEndsBeforeTheFirst) {
  StopStrings stops({"END", "", "\n\n"});
  EXPECT_EQ(stops.push("one E"), "one ");
  EXPECT_EQ(stops.push("N"), "");
  EXPECT_EQ(stops.push("Two\n"), "ENTwo");
  EXPECT_FALSE(stops.found());
  EXPECT_EQ(stops.push("\nEND"), "");
  EXPECT_TRUE(stops.found());
  EXPECT_EQ(stops.push("more"), "");
  EXPECT_EQ(stops.finish(), "");
  StopStrings other({"END"});
  EXPECT_EQ(other.push("E"), "");
  EXPECT_EQ(other.finish(), "E");
}

}  // namespace
}  // namespace hg
