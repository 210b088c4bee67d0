// SPDX-License-Identifier: Apache-2.0
// Generates with a small encoder-decoder with random weights, and compares the results with runs
// over the whole text.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "hg/generator.h"
#include "hg/hg.h"
#include "tests/support/must.h"
#include "tests/support/small_decoder.h"

namespace hg {
namespace {

using namespace small_decoder;

// The encoder: keys and values of each word. The decoder adds what it finds there to its own words.
Model encoder_decoder(bool masks = true) {
  const auto weight = [](Graph& g, const char* name, int64_t rows, int64_t columns, uint64_t seed) {
    return g.parameter(name, f32, {rows, columns}, init::normal(0, 0.5, seed));
  };
  const auto heads = [](const Value& x, const Dim& time) {
    return permute(reshape(x, {Dim("b"), time, kHeads, kHeadDim}), {0, 2, 1, 3});
  };
  const Dim b("b"), s("s"), t("t"), p("p");
  Graph encode;
  {
    Value words = embedding(weight(encode, "words", kWords, kWidth, 1),
                            encode.input("input_ids", i64, {b, s}));
    if (masks) encode.input("attention_mask", i64, {b, s});
    encode.output("cross.key", heads(linear(words, weight(encode, "ck", kWidth, kWidth, 2)), s));
    encode.output("cross.value", heads(linear(words, weight(encode, "cv", kWidth, kWidth, 3)), s));
  }
  Graph decode;
  {
    Value words = embedding(weight(decode, "words", kWords, kWidth, 1),
                            decode.input("input_ids", i64, {b, t}));
    const Value mask = decode.input("attention_mask", i64, {b, p + t});
    const Value q = heads(linear(words, weight(decode, "q", kWidth, kWidth, 4)), t);
    const Value past = decode.input("past.0", f32, {b, kHeads, p, kHeadDim});
    const Value k =
        concat({past, heads(linear(words, weight(decode, "k", kWidth, kWidth, 5)), t)}, 2);
    const Value visible =
        logical_and(le(arange(decode, p + t), reshape(arange(decode, p, p + t), {t, 1})),
                    reshape(ne(mask, decode.scalar(int64_t{0}, i64)), {b, 1, 1, p + t}));
    const Value own = attention(q, k, k, visible);
    const Value ck = decode.input("cross.key", f32, {b, kHeads, s, kHeadDim});
    const Value cv = decode.input("cross.value", f32, {b, kHeads, s, kHeadDim});
    Value shown;
    if (masks)
      shown = reshape(
          ne(decode.input("encoder_attention_mask", i64, {b, s}), decode.scalar(int64_t{0}, i64)),
          {b, 1, 1, s});
    const Value found = masks ? attention(q, ck, cv, shown) : attention(q, ck, cv);
    const Value mixed = reshape(permute(add(own, found), {0, 2, 1, 3}), {b, t, kWidth});
    decode.output("logits",
                  linear(rms_norm(mixed, {kWidth}), weight(decode, "h", kWords, kWidth, 6)));
    decode.output("present.0", k);
  }
  Model model;
  EXPECT_TRUE(model.add_entry("encode", std::move(encode)).ok());
  EXPECT_TRUE(model.add_entry("decode", std::move(decode)).ok());
  return model;
}

// Greedy ids after {1}: the decoder reads everything again for each token.
Ids greedy(const Model& model, const Ids& text, int64_t count) {
  Session encoder = must(Session::create(model, {.entry = "encode"}));
  Session decoder = must(Session::create(model, {.entry = "decode"}));
  const std::vector<int64_t> source(text.begin(), text.end()), shown(text.size(), 1);
  const auto size = static_cast<int64_t>(text.size());
  EXPECT_TRUE(encoder.set_input("input_ids", view(source, {1, size})).ok());
  EXPECT_TRUE(encoder.set_input("attention_mask", view(shown, {1, size})).ok());
  EXPECT_TRUE(encoder.run().ok());
  std::vector<int64_t> ids = {1};
  while (static_cast<int64_t>(ids.size()) <= count) {
    const auto time = static_cast<int64_t>(ids.size());
    const std::vector<int64_t> all(ids.size(), 1);
    const std::vector<float> none(1);
    EXPECT_TRUE(decoder.set_input("input_ids", view(ids, {1, time})).ok());
    EXPECT_TRUE(decoder.set_input("attention_mask", view(all, {1, time})).ok());
    EXPECT_TRUE(decoder.set_input("past.0", view(none.data(), f32, {1, kHeads, 0, kHeadDim})).ok());
    EXPECT_TRUE(decoder.set_input("encoder_attention_mask", view(shown, {1, size})).ok());
    for (const char* name : {"cross.key", "cross.value"})
      EXPECT_TRUE(decoder.set_input(name, must(encoder.output(name))).ok());
    EXPECT_TRUE(decoder.run().ok());
    const float* const row = must(decoder.output("logits")).as<float>() + (time - 1) * kWords;
    ids.push_back(std::max_element(row, row + kWords) - row);
  }
  return {ids.begin() + 1, ids.end()};
}

TEST(EncoderDecoder, EqualsRunsOfTheWholeText) {
  const Model model = encoder_decoder();
  const Prompts texts = {random_ids(1, 1), random_ids(7, 2), random_ids(40, 3)};
  std::vector<Ids> wanted;
  for (const Ids& text : texts) wanted.push_back(greedy(model, text, 30));
  EXPECT_NE(wanted[0], wanted[1]);
  Generator generator = must(Generator::create(model, {.threads = 2}));
  for (size_t i = 0; i < texts.size(); ++i) {
    GenerateOptions options = {.max_tokens = 30};
    options.encoder_ids = {texts[i]};
    EXPECT_EQ(must(generator.generate({{1}}, options)).sequences[0].ids, wanted[i]);
    options.reuse_past = true;  // has no effect: the past belongs to another text
    options.encoder_ids = {texts[(i + 1) % 3]};
    EXPECT_EQ(must(generator.generate({{1}}, options)).sequences[0].ids, wanted[(i + 1) % 3]);
  }
  GenerateOptions options = {.max_tokens = 30};
  options.encoder_ids = texts;
  const Generation all = must(generator.generate({{1}, {1}, {1}}, options));
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(all.sequences[i].ids, wanted[i]);
}

TEST(EncoderDecoder, Refusals) {
  const Model model = encoder_decoder();
  EXPECT_TRUE(is_encoder_decoder(model));
  EXPECT_FALSE(is_encoder_decoder(decoder()));
  expect_refusal(Generator::create(model, {.entry = "decode"}).status(), Code::unsupported,
                 "the input 'cross.key' comes from an encoder");
  Generator generator = must(Generator::create(model));
  const auto refused = [&](Prompts texts, Prompts prompts, std::string_view part) {
    GenerateOptions options = {.max_tokens = 2};
    options.encoder_ids = std::move(texts);
    expect_refusal(generator.generate(prompts, options).status(), Code::invalid_argument, part);
  };
  refused({}, {{1}}, "the encoder got 0 texts for 1 prompt");
  refused({{1}}, {{1}, {1}}, "the encoder got 1 texts for 2 prompts");
  refused({{}}, {{1}}, "text 0 of the encoder is empty");
  refused({{2, 61}}, {{1}},
          "text 0 of the encoder has the id 61, but the vocabulary has 61 tokens");
  refused({{2}, {3}}, {{1}, {1, 2}}, "different lengths need the inputs");
  const std::vector<float> numbers(3);
  GenerateOptions options;
  options.encoder_features = view(numbers, {1, 3});
  expect_refusal(generator.generate({{1}}, options).status(), Code::invalid_argument,
                 "the encoder reads token ids, not features");
  Generator plain = must(Generator::create(decoder()));
  expect_refusal(plain.generate({{1}}, options).status(), Code::invalid_argument,
                 "there are inputs of an encoder, but the model has none");
  options.encoder_features = {};
  options.encoder_ids = {{1}};
  options.max_tokens = 4;
  EXPECT_EQ(must(generator.generate({{1}}, options)).sequences[0].ids.size(), 4u);
}

}  // namespace
}  // namespace hg
