// SPDX-License-Identifier: Apache-2.0
// Embeddings, compared with the hidden states of runs over the whole text.
#include "hg/embedder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "hg/generator.h"
#include "hg/hg.h"
#include "tests/support/must.h"
#include "tests/support/small_decoder.h"

namespace hg {
namespace {

using namespace small_decoder;

// Rows of hidden states [1, time, kWidth].
std::vector<float> pooled(const Tensor& rows, const EmbedOptions& options) {
  const int64_t time = rows.shape[1], size = rows.shape[2];
  std::vector<double> sum(static_cast<size_t>(size));
  for (int64_t t = 0; t < time; ++t) {
    if (options.pooling == Pooling::first && t > 0) continue;
    if (options.pooling == Pooling::last && t + 1 < time) continue;
    for (int64_t e = 0; e < size; ++e) sum[e] += rows.as<float>()[t * size + e];
  }
  double squares = 0;
  for (double& each : sum) {
    if (options.pooling == Pooling::mean) each /= static_cast<double>(time);
    squares += each * each;
  }
  std::vector<float> out;
  for (const double each : sum)
    out.push_back(static_cast<float>(options.normalize ? each / std::sqrt(squares) : each));
  return out;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5) << i;
}

TEST(Embedder, EqualsPooledHiddenStates) {
  Form plain = {.past = false, .mask = false, .positions = false, .hidden_name = "hidden"};
  Session session = must(Session::create(decoder(plain), {.threads = 1}));
  const std::vector<Form> forms = {
      {},
      {.past = false},
      {.past = false, .mask = false, .positions = false},
      {.mask = false},
      {.integers = i32},
      {.last_only = true},
      {.logits_name = "scores"},
      {.hidden_name = "last_hidden_state"},
      {.batch = 1},
  };
  std::mt19937 random(4);
  for (size_t f = 0; f < forms.size(); ++f) {
    SCOPED_TRACE(str_cat("form ", uint64_t{f}));
    Embedder embedder = must(Embedder::create(decoder(forms[f]), {.threads = 1}));
    EXPECT_EQ(embedder.size(), kWidth);
    EXPECT_EQ(embedder.vocabulary(), kWords);
    for (int i = 0; i < 12; ++i) {
      const Ids ids = random_ids(1 + random() % 30, random());
      const std::vector<int64_t> wide(ids.begin(), ids.end());
      ASSERT_TRUE(session.set_input(0, view(wide, {1, std::ssize(wide)})).ok());
      ASSERT_TRUE(session.run().ok());
      const EmbedOptions options = {.pooling = static_cast<Pooling>(i % 3),
                                    .normalize = i % 2 == 0};
      expect_near(must(embedder.embed(ids, options)),
                  pooled(must(session.output("hidden")), options));
    }
  }
}

// As exported BERTs: three inputs, and a second output.
TEST(Embedder, TakesTextEncoders) {
  Graph g;
  const Dim b("b"), t("t");
  const auto table = [&](const char* name, int64_t rows, uint64_t seed) {
    return g.parameter(name, f32, {rows, 8}, init::normal(0, 1, seed));
  };
  const Value ids = g.input("input_ids", i64, {b, t});
  const Value shown = g.input("attention_mask", i64, {b, t});
  const Value types = g.input("token_type_ids", i64, {b, t});
  const Value x = embedding(table("words", 11, 1), ids) + embedding(table("types", 2, 2), types);
  const Value mixed = x + mean(x * reshape(cast(shown, f32), {b, t, 1}), {1}, true);
  g.output("last_hidden_state", mixed);
  g.output("pooler_output", mean(mixed, {1}));
  const Model model = must(Model::from_graph(std::move(g)));
  Session session = must(Session::create(model, {.threads = 1}));
  Embedder embedder = must(Embedder::create(model, {.threads = 1}));
  EXPECT_EQ(embedder.size(), 8);
  EXPECT_EQ(embedder.vocabulary(), 11);
  const Ids text = {3, 10, 0, 7};
  const std::vector<int64_t> wide(text.begin(), text.end()), ones(4, 1), zeros(4, 0);
  ASSERT_TRUE(session.set_input("input_ids", view(wide, {1, 4})).ok());
  ASSERT_TRUE(session.set_input("attention_mask", view(ones, {1, 4})).ok());
  ASSERT_TRUE(session.set_input("token_type_ids", view(zeros, {1, 4})).ok());
  ASSERT_TRUE(session.run().ok());
  for (const Pooling pooling : {Pooling::mean, Pooling::last, Pooling::first})
    expect_near(must(embedder.embed(text, {.pooling = pooling})),
                pooled(must(session.output("last_hidden_state")), {.pooling = pooling}));
  EXPECT_FALSE(Generator::create(model).ok());
}

TEST(Embedder, Refuses) {
  Embedder embedder = must(Embedder::create(decoder(), {.threads = 1}));
  expect_refusal(embedder.embed({}).status(), Code::invalid_argument, "embed: the text is empty");
  expect_refusal(embedder.embed(Ids{kWords}).status(), Code::invalid_argument, "has the id 61");
  expect_refusal(embedder.embed(Ids(201, 1)).status(), Code::invalid_argument,
                 "embed: the text has 201 tokens, but the model has 200 positions");
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(embedder.embed(Ids{1}, {}, source.get_token()).status().code(), Code::cancelled);
  EXPECT_EQ(must(embedder.embed(Ids{1})).size(), size_t{kWidth});
  EXPECT_EQ(must(parse_pooling("last")), Pooling::last);
  expect_refusal(parse_pooling("max").status(), Code::invalid_argument, "no pooling 'max'");
  Graph table;  // the logits are rows of a table
  const Value ids = table.input("ids", i64, {"b", "t"});
  table.output("logits", embedding(table.parameter("w", f32, {5, 5}), ids));
  expect_refusal(Embedder::create(must(Model::from_graph(std::move(table)))).status(),
                 Code::unsupported, "'logits' is not computed by a product");
  Graph last;  // the sum over all tokens
  const Value words = last.input("ids", i64, {"b", "t"});
  const Value rows = embedding(last.parameter("w", f32, {5, 3}, init::normal(0, 1, 1)), words);
  last.output("logits", linear(sum(rows, {1}, true), last.parameter("h", f32, {5, 3})));
  Embedder sums = must(Embedder::create(must(Model::from_graph(std::move(last)))));
  expect_refusal(sums.embed(Ids{1, 2}).status(), Code::unsupported, "use the pooling last");
  EXPECT_EQ(must(sums.embed(Ids{1, 2}, {.pooling = Pooling::last})).size(), 3u);
}

}  // namespace
}  // namespace hg
