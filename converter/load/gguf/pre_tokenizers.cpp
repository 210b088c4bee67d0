// SPDX-License-Identifier: Apache-2.0
#include "converter/load/gguf/pre_tokenizers.h"

namespace hg::convert::gguf {
namespace {

// Matches contractions, words, up to three digits, punctuation, line breaks and spaces.
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Matches letters of alphabets with case, punctuation, trailing spaces, and Chinese and Korean
// characters.
constexpr std::string_view kDeepSeekLlm =
    R"([\r\n])"
    "\n"
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293"
    "\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c"
    "\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0"
    "-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d"
    "\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec"
    "\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126"
    "\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184"
    "\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
    "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21"
    "-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb"
    "\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
    "]+"
    "\n"
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"
    "\n"
    R"(\s+$)"
    "\n"
    "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+\n"
    "digits";
constexpr std::string_view kDeepSeekCoder = R"([\r\n])"
                                            "\n"
                                            R"(\s?\p{L}+)"
                                            "\n"
                                            R"(\s?\p{P}+)"
                                            "\n"
                                            "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+\n"
                                            "digits";
constexpr std::string_view kDeepSeekV3 =
    R"(\p{N}{1,3})"
    "\n"
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+\n"
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
    R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr PreTokenizerKind kKinds[] = {
    {.name = "llama-bpe", .before = kLlama3, .whole_words = true, .adds_bos = true},
    {.name = "llama3", .before = kLlama3, .whole_words = true, .adds_bos = true},
    {.name = "dbrx", .before = kLlama3},
    {.name = "smaug-bpe", .before = kLlama3},
    {.name = "qwen2", .before = kQwen2, .composes = true},
    {.name = "deepseek-r1-qwen", .before = kQwen2, .composes = true},
    {.name = "tekken", .before = kTekken, .whole_words = true, .adds_bos = true},
    {.name = "gpt-4o", .before = kGpt4o},
    {.name = "llama4", .before = kGpt4o},
    {.name = "deepseek-llm", .before = kDeepSeekLlm},
    {.name = "deepseek-coder", .before = kDeepSeekCoder},
    {.name = "deepseek-v3", .before = kDeepSeekV3},
    {.name = "gpt-2", .splits_words = true},
    {.name = "phi-2", .splits_words = true},
    {.name = "olmo", .splits_words = true, .composes = true},
    {.name = "mpt", .splits_words = true, .composes = true},
    {.name = "smollm", .before = "digits", .splits_words = true},
    {.name = "starcoder", .before = "digits", .splits_words = true},
    {.name = "refact", .before = "digits", .splits_words = true},
    {.name = "command-r", .before = "digits", .splits_words = true, .composes = true},
    {.name = "falcon",
     .before = "punctuation",
     .behind = "digit runs\n[0-9][0-9][0-9]",
     .splits_words = true},
};

}  // namespace

const PreTokenizerKind* pre_tokenizer_kind(std::string_view name) {
  for (const PreTokenizerKind& kind : kKinds)
    if (kind.name == name) return &kind;
  return nullptr;
}

}  // namespace hg::convert::gguf
