// SPDX-License-Identifier: Apache-2.0
// Grammars and JSON schemas: which texts they accept, and which tokens a constraint allows.
#include "hg/text/grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "hg/ops.h"
#include "hg/text/c.h"
#include "lib/text/grammar/rules.h"
#include "tests/support/must.h"

namespace hg {
namespace {

struct Case {
  const char* rules;
  std::vector<std::string> in, out;
};

TEST(Grammar, AcceptsTheTextsOfItsRules) {
  const std::vector<Case> cases = {
      {"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "y", "yesno", "nope"}},
      {"root ::= \"a\"* \"b\"+ \"c\"?", {"b", "aab", "abbbc"}, {"", "a", "abcc", "c"}},
      {"root ::= (\"ab\" | x) {2,3} # comment\nx ::= [0-9]",
       {"ab1", "12", "ababab", "1ab2"},
       {"ab", "1234", "abababab", "a1"}},
      {"root ::= \"x\"{2} \"y\"{1,} \"z\"{0,2}", {"xxy", "xxyyzz"}, {"xy", "xxz", "xxyzzz"}},
      // Nested brackets: no finite automaton accepts these.
      {"root ::= \"(\" root \")\" root |", {"", "()", "(())()", "((()))"}, {"(", ")(", "(()"}},
      // Characters of 1 to 4 bytes, and sets.
      {"root ::= [^a-z\\n]+",
       {"A", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80Z"},
       {"a", "\n", "\xc3"}},
      {"root ::= [\\u00e0-\\u20ac]",
       {"\xc3\xa0", "\xe2\x82\xac", "\xdf\xbf"},
       {"\xc3\x9f", "\xe2\x82\xad", "a"}},
      {"root ::= [\\U00010000-\\U0010FFFF]",
       {"\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"},
       {"\xef\xbf\xbf", "\xf4\x90\x80\x80"}},
      {"root ::= .",
       {"a", "\xed\x9f\xbf", "\xee\x80\x80", "\n"},
       {"", "ab", "\xed\xa0\x80", "\xff"}},
      {"root ::= \"\\x41\\t\\\\\\\"\\u20ac\"", {"A\t\\\"\xe2\x82\xac"}, {"A"}},
      // Rules that may be empty, in all places.
      {"root ::= e e (\"a\" e)* e\ne ::= (\"b\" | )*", {"", "b", "abba", "bbab"}, {"c"}},
      // A rule whose text never ends is left out.
      {"root ::= \"a\" never | \"b\"\nnever ::= \"c\" never", {"b"}, {"a", "ac", "acc"}},
      // Names at the beginning of the next line belong to the next rule only before ::=.
      {"root ::= a\n  b\na ::= \"1\"\nb ::= \"2\"", {"12"}, {"1", "2"}},
  };
  for (const Case& each : cases) {
    const Grammar grammar = must(Grammar::parse(each.rules));
    for (const std::string& text : each.in)
      EXPECT_TRUE(grammar.accepts(text)) << each.rules << ": " << text;
    for (const std::string& text : each.out)
      EXPECT_FALSE(grammar.accepts(text)) << each.rules << ": " << text;
  }
}

TEST(Grammar, Refusals) {
  std::vector<std::pair<std::string, std::string>> cases = {
      {"", "there is no rule 'root'"},
      {"root ::= x", "line 1: there is no rule 'x'"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2: there are two rules 'root'"},
      {"root ::= root \"a\" | \"b\"", "a rule begins with itself"},
      {"root ::= e root \"a\" | \"b\"\ne ::= \"x\"?", "a rule begins with itself"},
      {"root ::= a\na ::= b \"x\"\nb ::= a \"y\" | \"z\"", "a rule begins with itself"},
      {"root ::= \"a\" root", "no text of the rule 'root' ends"},
      {"root ::= root", "no text of the rule 'root' ends"},
      {"root ::= (\"a\"", "expected ')'"},
      {"root ::= \"a", "the text ends inside quotes or a set"},
      {"root ::= [a", "the text ends inside quotes or a set"},
      {"root ::= []", "the set has no character"},
      {"root ::= [z-a]", "ends before it begins"},
      {"root ::= \"\\q\"", "unknown escape"},
      {"root ::= \"\\ud800\"", "the escape is no character"},
      {"root ::= \"a\"{3,2}", "allows nothing"},
      {"root ::= \"a\"{}", "expected a number of repetitions"},
      {"root ::= \"a\"{1000000}", "more than 100000 repetitions"},
      {"root ::= )", "expected a rule"},
      {"root = \"a\"", "expected a rule"},
      {std::string(300, '(').insert(0, "root ::= "), "nested too deeply"},
      {"root ::= \"\xff\"", "not UTF-8"},
  };
  std::string large = "root ::= ";
  for (int i = 0; i < 11; ++i) large += "\"a\"{100000} ";
  cases.emplace_back(large, "the grammar is too large");
  for (const auto& [rules, part] : cases) {
    const Result<Grammar> made = Grammar::parse(rules);
    ASSERT_FALSE(made.ok()) << rules;
    EXPECT_EQ(made.status().code(), Code::invalid_argument);
    EXPECT_NE(made.status().message().find(part), std::string::npos) << made.status().message();
  }
}

TEST(Grammar, AcceptsWhatAJsonSchemaAccepts) {
  const std::vector<Case> cases = {
      {R"({"type": "object"})", {"{}", R"({"a": [1, {"b": null}]})"}, {"[]", "{", R"({a: 1})"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
           "required": ["b"]})",
       {R"({"b": "x"})", R"({"a": -3, "b": "\u00e4\n"})", R"({"a":0,"b":""})"},
       {"{}", R"({"a": 1})", R"({"b": "x", "a": 1})", R"({"a": 1.5, "b": ""})",
        R"({"a": 01, "b": ""})", R"({"b": "x", "c": 1})", R"({"b": "\ud800"})"}},
      {R"({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3})",
       {"[true]", "[true, false,true]"},
       {"[]", "[1]", "[true,true,true,true]", "[true,]"}},
      {R"({"enum": ["red", 3, null, {"a": 1}]})",
       {"\"red\"", "3", "null", R"({"a":1})"},
       {"red", "4"}},
      {R"({"const": "a\"b"})", {R"("a\"b")"}, {R"("a")"}},
      {R"({"type": ["string", "null"], "maxLength": 2})",
       {"null", "\"ab\"", "\"\\u0041b\""},
       {"\"abc\"", "1"}},
      {R"({"anyOf": [{"type": "number"}, {"type": "string", "minLength": 1}]})",
       {"-1.5e+3", "0", "\"a\""},
       {"\"\"", "-", "1."}},
      {R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object",
           "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "required": ["kids"],
           "additionalProperties": false}}})",
       {R"({"kids": []})", R"({"kids": [{"kids": []}, {"kids": [{"kids": []}]}]})"},
       {"{}", R"({"kids": [{}]})"}},
      {R"({"type": ["object", "null"]})", {"{}", "null", R"({"a": 1})"}, {"[]"}},
      {R"({"$ref": "#/$defs/a%20~1~00", "$defs": {"a /~0": {"const": 1}, "a%20/~0": {"const": 2}}})",
       {"1"},
       {"2"}},
      {R"({"enum": [1.5, [0.25, -9223372036854775808, 18446744073709551615]]})",
       {"1.5", "[0.25,-9223372036854775808,18446744073709551615]"},
       {"1"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"x": 1, "y": 2})"},
       {R"({"x": "1"})"}},
      {"{}", {"1", "\"a\"", "[]"}, {""}},
      {"true", {"1", "{}"}, {""}},
  };
  for (const Case& each : cases) {
    const Grammar grammar = must(Grammar::from_json_schema(each.rules));
    for (const std::string& text : each.in)
      EXPECT_TRUE(grammar.accepts(text)) << each.rules << ": " << text;
    for (const std::string& text : each.out)
      EXPECT_FALSE(grammar.accepts(text)) << each.rules << ": " << text;
  }
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"{", "the text is not JSON"},
      {R"({"type": "string", "pattern": "a"})", "#: the keyword 'pattern' is not supported here"},
      {R"({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}})",
       "#/properties/a: the keyword 'minimum' is not supported here"},
      {R"({"oneOf": []})", "the keyword 'oneOf' is not supported here"},
      {R"({"type": "real"})", "there is no type 'real'"},
      {R"({"type": "object", "required": ["a"]})", "required has \"a\", which properties lacks"},
      {R"({"$ref": "#/$defs/x"})", "there is no '#/$defs/x'"},
      {R"({"$ref": "http://x"})", "expected a place in this schema"},
      {R"({"$ref": "#"})", "no text of the rule 'root' ends"},
      {R"({"enum": []})", "enum is []"},
      {R"({"enum": [[{"a": 10000000000000000000000000}]]})", "a number of more than 64 bits"},
      {R"({"const": 1e30})", "a number of more than 64 bits"},
      {R"({"const": 1.5, "type": "integer"})", "has not the type"},
      {R"({"const": 1, "type": "string"})", "has not the type"},
      {R"({"type": "array", "minItems": 3, "maxItems": 2})", "maxItems is below minItems"},
      {R"({"type": "object", "properties": {"a": {}}, "additionalProperties": {}})",
       "must be true or false"},
      {R"({"enum": [)" + std::string(100000, '[') + std::string(100000, ']') + "]}",
       "nested too deeply"},
      {"false", "expected a schema"},
  };
  for (const auto& [schema, part] : refused) {
    const Result<Grammar> made = Grammar::from_json_schema(schema);
    ASSERT_FALSE(made.ok()) << schema;
    EXPECT_NE(made.status().message().find(part), std::string::npos) << made.status().message();
  }
}

// Byte-level tokens; 0 to 2 are letters, 3 and 4 the bytes of a character, 5 joins letters.
constexpr char kTokens[] =
    R"({"added_tokens": [{"id": 6, "content": "<end>", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true}], "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "post_processor": null, "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "\u00c3": 3, "\u00a4": 4, "ab": 5}, "merges": [["a", "b"]]}})";

TEST(Grammar, AllowsTokensThatContinueATextOfIt) {
  const Tokenizer tokenizer = must(Tokenizer::from_json(kTokens));
  const auto texts = must(token_texts(tokenizer));
  const auto allowed = [&](const std::string& rules, const std::vector<int32_t>& before,
                           const std::vector<int32_t>& stop_ids) {
    const auto state = must(constraint_of(must(Grammar::parse(rules)), texts)->begin());
    std::vector<int32_t> all;
    for (size_t i = 0;; ++i) {
      std::vector<float> logits(8, 0.25f);
      const bool continues = must(state->restrict(logits, stop_ids));
      if (i < before.size()) {
        EXPECT_EQ(logits[static_cast<size_t>(before[i])], 0.25f);
        EXPECT_TRUE(state->push(before[i]).ok());
        continue;
      }
      for (int32_t id = 0; id < 8; ++id) {
        const float logit = logits[static_cast<size_t>(id)];
        if (logit == 0.25f) all.push_back(id);
        EXPECT_TRUE(logit == 0.25f || logit == -std::numeric_limits<float>::infinity());
      }
      EXPECT_EQ(continues, !all.empty());
      return all;
    }
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(allowed("root ::= \"ab\" [ac]?", {}, {6}), (Ids{0, 5}));
  EXPECT_EQ(allowed("root ::= \"ab\" [ac]?", {0}, {6}), (Ids{1}));
  EXPECT_EQ(allowed("root ::= \"ab\" [ac]?", {5}, {6}), (Ids{0, 2, 6}));
  EXPECT_EQ(allowed("root ::= \"ab\" [ac]?", {5}, {}), (Ids{0, 2}));
  EXPECT_EQ(allowed("root ::= \"ab\" [ac]?", {5, 2}, {}), (Ids{}));
  EXPECT_EQ(allowed("root ::= \"\\u00e4\"", {}, {6}), (Ids{3}));  // parts of a character
  EXPECT_EQ(allowed("root ::= \"\\u00e4\"", {3}, {6}), (Ids{4}));
  EXPECT_EQ(allowed("root ::= \"\\u00e4\"", {3, 4}, {6}), (Ids{6}));
  // A stop id is no part of the text, so none can begin here.
  const auto state = must(constraint_of(must(Grammar::parse("root ::= \"cc\"")), texts)->begin());
  std::vector<float> logits(8);
  const std::vector<int32_t> stop_ids = {2};
  EXPECT_EQ(state->restrict(logits, stop_ids).status().message(),
            "grammar: no token of the vocabulary continues the text");
}

// A tokenizer of the tokens "a", a space as a byte and as a character, "b" and "e", with a decoder.
Result<Tokenizer> with_decoder(const std::string& decoder) {
  return Tokenizer::from_json(
      R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": )" +
      decoder + R"(, "model": {"type": "BPE", "byte_fallback": true, "merges": [],
          "vocab": {"a": 0, "<0x20>": 1, "\u2581": 2, "b": 3, "e": 4}}})");
}

TEST(Grammar, TextsOfTokensAreThoseInAnAnswer) {
  const std::string llama = R"({"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";
  // The decoder removes a space that an answer begins with.
  const auto texts = must(token_texts(must(with_decoder(llama))));
  const auto state = must(constraint_of(must(Grammar::parse("root ::= [ab ]+")), texts)->begin());
  for (const auto& allowed : {std::vector<int32_t>{0, 3}, {0, 1, 2, 3}}) {
    std::vector<float> logits(5, 0.25f);
    ASSERT_TRUE(must(state->restrict(logits, {})));
    for (int32_t id = 0; id < 5; ++id)
      EXPECT_EQ(logits[static_cast<size_t>(id)] == 0.25f,
                std::find(allowed.begin(), allowed.end(), id) != allowed.end())
          << id;
    ASSERT_TRUE(state->push(0).ok());
  }
  // Texts of tokens that depend on the tokens beside them.
  for (const std::string decoder :
       {R"({"type": "BPEDecoder", "suffix": "b"})",
        R"({"type": "CTC", "pad_token": "b", "word_delimiter_token": "e", "cleanup": false})",
        R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
            {"type": "Replace", "pattern": {"Regex": "e+"}, "content": "e"}]})"}) {
    const auto made = token_texts(must(with_decoder(decoder)));
    ASSERT_FALSE(made.ok()) << decoder;
    EXPECT_EQ(made.status().message(),
              "grammar: the decoder of the tokenizer joins neighboring tokens");
  }
}

// Two kinds of opening brackets, so that most stacks are new.
TEST(Grammar, StatesOfLongTextsAreForgotten) {
  const std::string rules = "root ::= pair*\npair ::= \"a\" pair* \"b\" | \"c\" pair* \"b\"";
  const Grammar grammar = must(Grammar::parse(rules));
  const auto texts = must(token_texts(must(Tokenizer::from_json(kTokens))));
  const auto constrained = must(constraint_of(grammar, texts)->begin());
  Automaton automaton(grammar.rules());
  int32_t state = automaton.start();
  std::mt19937 random(2);
  int depth = 0;
  size_t most = 0;
  for (int i = 0; i < 100000; ++i) {
    const bool opens = depth == 0 || (depth < 40 && random() % 2 == 0);
    const char byte = !opens ? 'b' : random() % 2 == 0 ? 'a' : 'c';
    depth += opens ? 1 : -1;
    state = automaton.next(state, static_cast<uint8_t>(byte));
    ASSERT_NE(state, Automaton::kDead) << i;
    ASSERT_TRUE(constrained->push(byte - 'a').ok()) << i;
    most = std::max(most, automaton.size());
    if (automaton.is_full()) state = automaton.forget_others(state);
    if (i % 200 != 0) continue;
    std::vector<float> logits(8, 0.25f);
    ASSERT_TRUE(must(constrained->restrict(logits, std::vector<int32_t>{6})));
    for (int32_t id = 0; id < 3; ++id) {
      const bool may = automaton.next(state, static_cast<uint8_t>('a' + id)) != Automaton::kDead;
      EXPECT_EQ(logits[static_cast<size_t>(id)] == 0.25f, may) << i;
    }
    EXPECT_EQ(logits[6] == 0.25f, automaton.is_whole(state));
  }
  EXPECT_GT(most, Automaton::kLeastLimit);
  EXPECT_LT(most, Automaton::kLeastLimit + 1000);
  // A text that is deeper than the limit.
  const std::string left(30000, 'a'), right(30000, 'b');
  EXPECT_TRUE(grammar.accepts(left + right));
  EXPECT_FALSE(grammar.accepts(left + right + "b"));
  EXPECT_FALSE(grammar.accepts(left + "b"));
}

TEST(Grammar, ConstrainsGeneratorsOfC) {
  Graph graph;
  TensorData table = must(TensorData::allocate(f32, {7, 7}));
  for (int i = 0; i < 7; ++i) table.tensor.as<float>()[i * 7 + (i + 1) % 7] = 2;
  graph.output("logits",
               embedding(graph.parameter("w", table), graph.input("input_ids", i64, {"b", "t"})));
  Model words = must(Model::from_graph(std::move(graph)));
  words.set_info({.attachments = {{"tokenizer.json", kTokens}}});
  const auto bytes = must(words.serialize());
  hg_model* model = nullptr;
  ASSERT_EQ(hg_model_read(bytes.data(), bytes.size(), nullptr, &model), nullptr);
  hg_generator* generator = nullptr;
  ASSERT_EQ(hg_generator_create(model, nullptr, &generator), nullptr);
  hg_constraint* constraint = nullptr;
  ASSERT_EQ(hg_constraint_of_grammar(model, "root ::= \"ca\" [bc]", &constraint), nullptr);
  hg_generate_options options;
  hg_generate_options_init(&options, sizeof options);
  options.constraint = constraint;
  const int32_t first[] = {0}, *ids = nullptr;
  const hg_token_ids prompt = {first, 1};
  ASSERT_EQ(hg_generator_begin(generator, &prompt, 1, &options), nullptr);
  hg_constraint_free(constraint);
  size_t count = 1;
  while (count > 0) ASSERT_EQ(hg_generator_step(generator, nullptr, &count), nullptr);
  ASSERT_EQ(hg_generator_sequence(generator, 0, &ids, &count, nullptr), nullptr);
  EXPECT_EQ(std::vector<int32_t>(ids, ids + count), (std::vector<int32_t>{2, 0, 1}));
  hg_status* refused = hg_constraint_of_json_schema(model, "{\"type\": 1}", &constraint);
  EXPECT_EQ(hg_status_code(refused), HG_INVALID_ARGUMENT);
  EXPECT_EQ(constraint, nullptr);
  hg_status_free(refused);
  hg_generator_free(generator);
  hg_model_free(model);
}

}  // namespace
}  // namespace hg
