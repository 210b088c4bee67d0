// SPDX-License-Identifier: Apache-2.0
// hg-generate as a program.
#include <cmath>
#include <nlohmann/json.hpp>

#include "hg/ops.h"
#include "tests/support/must.h"
#include "tests/tools/programs.h"

namespace hg::tools {
namespace {

using nlohmann::json;

// A model of five words: after the word i, the word i + 1 is the most likely.
Graph counting_words() {
  Graph g;
  TensorData table = *TensorData::allocate(f32, {5, 5});
  for (int i = 0; i < 5; ++i) table.tensor.as<float>()[i * 5 + (i + 1) % 5] = 2;
  g.output("logits", embedding(g.parameter("w", table), g.input("input_ids", i64, {"b", "t"})));
  return g;
}

TEST_F(Programs, GenerateContinuesPrompts) {
  save(counting_words(), "words.hgm");
  EXPECT_EQ(run("hg-generate words.hgm --ids 4,1 --max-tokens 4").out, "2,3,4,0\n");
  EXPECT_EQ(run("hg-generate words.hgm --ids 1 --ids 3 --max-tokens 2").out, "2,3\n4,0\n");
  EXPECT_EQ(run("hg-generate words.hgm --ids 1 --max-tokens 0").out, "\n");
  const json one = json::parse(
      run("hg-generate words.hgm --ids 4,1 --stop-id 4 --stop-id 0 --json --log-probabilities")
          .out);
  EXPECT_EQ(one["ids"], json({2, 3}));
  EXPECT_EQ(one["finish"], "stop");
  EXPECT_EQ(one["prompt_tokens"], 2);
  EXPECT_EQ(one["tokens"], 2);
  EXPECT_GT(one["prompt_ms"], 0);
  EXPECT_GT(one["decode_ms"], 0);
  ASSERT_EQ(one["log_probabilities"].size(), 2u);
  EXPECT_NEAR(one["log_probabilities"][0], 2 - std::log(std::exp(2.0) + 4), 1e-6);
  const std::string sampled =
      "hg-generate words.hgm --ids 1 --ids 1 --temperature 2 --top-k 3 --top-p 0.9 --min-p 0.01 "
      "--repetition-penalty 1.1 --max-tokens 50 --json --seed ";
  const json first = json::parse(run(sampled + "1").out);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0]["finish"], "length");
  EXPECT_EQ(first[0]["tokens"], 50);
  EXPECT_FALSE(first[0].contains("log_probabilities"));
  EXPECT_NE(first[0]["ids"], first[1]["ids"]);
  EXPECT_EQ(json::parse(run(sampled + "1 --threads 1").out)[1]["ids"], first[1]["ids"]);
  EXPECT_NE(json::parse(run(sampled + "2").out)[1]["ids"], first[1]["ids"]);
}

// counting_words() with a past that grows, which has no effect.
Graph remembering_words(float weight) {
  Graph g;
  const Dim b("b"), t("t"), p("p");
  TensorData table = *TensorData::allocate(f32, {5, 5});
  for (int i = 0; i < 5; ++i) table.tensor.as<float>()[i * 5 + (i + 1) % 5] = weight;
  const Value ids = g.input("input_ids", i64, {b, t});
  const Value shown = cast(g.input("attention_mask", i64, {b, p + t}), f32);
  const Value present =
      concat({g.input("past.x", f32, {b, 1, p, 1}), reshape(cast(ids, f32), {b, 1, t, 1})}, 2);
  const Value read = sum(present * reshape(shown, {b, 1, p + t, 1}), {1, 2}) * 0.0f;
  g.output("logits", embedding(g.parameter("w", table), ids) + reshape(read, {b, 1, 1}));
  g.output("present.x", present);
  return g;
}

TEST_F(Programs, GenerateKeepsThePast) {
  save(remembering_words(2), "words.hgm");
  const std::string cached = "hg-generate words.hgm --json --prompt-cache words.past --ids ";
  const json first = json::parse(run(cached + "4,1 --max-tokens 3").out);
  EXPECT_EQ(first["ids"], json({2, 3, 4}));
  EXPECT_EQ(first["reused"], 0);
  const json second = json::parse(run(cached + "4,1,2,3,0 --max-tokens 2").out);
  EXPECT_EQ(second["ids"], json({1, 2}));
  EXPECT_EQ(second["reused"], 4);
  EXPECT_EQ(json::parse(run(cached + "4,1,4 --max-tokens 1").out)["reused"], 2);
  EXPECT_EQ(json::parse(run(cached + "3 --max-tokens 1").out)["reused"], 0);
  save(remembering_words(3), "other.hgm");
  expect_refusal("hg-generate other.hgm --prompt-cache words.past --ids 1", 4,
                 "belongs to another model");
  expect_refusal("hg-generate words.hgm --prompt-cache words.hgm --ids 1", 4, "holds no past");
  std::ofstream(folder_ / "words.past") << "no past";
  expect_refusal("hg-generate words.hgm --prompt-cache words.past --ids 1", 2, "words.past");
  const Ran unsaved = run("hg-generate words.hgm --ids 1 --prompt-cache no/such/words.past");
  EXPECT_EQ(unsaved.exit, 2);
  EXPECT_NE(unsaved.err.find("words.past"), std::string::npos) << unsaved.err;
  EXPECT_EQ(run("hg-generate words.hgm --ids 4,1 --max-tokens 4 --past i8").out, "2,3,4,0\n");
  expect_refusal(cached + "1 --ids 2", 1, "--prompt-cache takes one prompt");
  Model translator;
  must(translator.add_entry("encode", counting_words()));
  must(translator.add_entry("decode", counting_words()));
  must(translator.save(folder_ / "translator.hgm"));
  expect_refusal("hg-generate translator.hgm --prompt-cache t.past --ids 1", 3,
                 "the past of an encoder-decoder");
  // Nothing is generated for a place that cannot be written.
  EXPECT_EQ(unsaved.out, "");
  fs::create_directory(folder_ / "taken");
  expect_refusal("hg-generate none.hgm --ids 1 --prompt-cache taken", 2, "it is a directory");
  EXPECT_EQ(run("hg-generate words.hgm --ids 1 --max-tokens 1 --prompt-cache fresh.past").exit, 0);
  EXPECT_TRUE(fs::exists(folder_ / "fresh.past"));
  EXPECT_FALSE(fs::exists(folder_ / "fresh.past.probe"));
}

TEST_F(Programs, GenerateEmbeds) {
  Graph g;
  TensorData table = *TensorData::allocate(f32, {3, 2});
  const float values[] = {3, 4, 0, 2, -6, 0};
  std::copy_n(values, 6, table.tensor.as<float>());
  const Value x = embedding(g.parameter("w", table), g.input("input_ids", i64, {"b", "t"}));
  g.output("logits", linear(x, g.parameter("head", f32, {3, 2}, init::normal(0, 1, 1))));
  save(g, "words.hgm");
  const std::string embed = "hg-generate words.hgm --embed ";
  EXPECT_EQ(run(embed + "--ids 1").out, "0.0 1.0\n");
  EXPECT_EQ(run(embed + "--ids 0,1,2 --ids 2 --pooling last").out, "-1.0 0.0\n-1.0 0.0\n");
  const json one = json::parse(run(embed + "--ids 0,1,1 --json").out);  // the mean is 1, 8 / 3
  EXPECT_NEAR(one["embedding"][0], 3 / std::sqrt(73.0), 1e-6);
  EXPECT_NEAR(one["embedding"][1], 8 / std::sqrt(73.0), 1e-6);
  EXPECT_EQ(one["prompt_tokens"], 3);
  EXPECT_EQ(json::parse(run(embed + "--ids 0 --ids 1 --json").out).size(), 2u);
  expect_refusal(embed + "--ids 3", 4, "the vocabulary has 3 tokens");
  save(counting_words(), "table.hgm");
  expect_refusal("hg-generate table.hgm --embed --ids 1", 3, "is not computed by a product");
}

TEST_F(Programs, GenerateSpeculates) {
  save(remembering_words(2), "words.hgm");
  const json alone = json::parse(run("hg-generate words.hgm --ids 4,1 --max-tokens 40 --json").out);
  EXPECT_FALSE(alone.contains("accepted"));
  for (const char* how :
       {"--lookup 4", "--draft words.hgm", "--draft words.hgm --draft-tokens 9"}) {
    const json with = json::parse(
        run(str_cat("hg-generate words.hgm --ids 4,1 --max-tokens 40 --json ", how)).out);
    EXPECT_EQ(with["ids"], alone["ids"]) << how;
    EXPECT_GT(with["accepted"], 20) << how;
    EXPECT_LE(with["accepted"], with["proposed"]) << how;
  }
  save(counting_words(), "no_past.hgm");
  expect_refusal("hg-generate no_past.hgm --ids 1 --lookup 4", 3, "needs a past that grows");
  expect_refusal("hg-generate words.hgm --ids 1 --ids 2 --lookup 4", 3,
                 "cannot speculate with several sequences: the model lacks the input");
  expect_refusal("hg-generate words.hgm --ids 1 --ids 2 --draft words.hgm", 3,
                 "cannot speculate with several sequences: the model lacks the input");
  expect_refusal("hg-generate words.hgm --ids 1 --draft none.hgm", 2, "none.hgm");
}

constexpr char kWords[] =
    R"({"added_tokens": [{"id": 4, "content": "e", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true}], "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "unk_token": "a",
                  "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}}})";

TEST_F(Programs, GenerateContinuesTexts) {
  save(counting_words(), "words.hgm");
  std::ofstream(folder_ / "words.json") << kWords;
  const std::string generate = "hg-generate words.hgm --tokenizer words.json ";
  const Ran first = run(generate + "--prompt b --max-tokens 2");
  if (first.exit == 3) {
    EXPECT_NE(first.err.find("HG_TEXT"), std::string::npos) << first.err;
    GTEST_SKIP() << "without tokenizers";
  }
  EXPECT_EQ(first.out, "c d\n") << first.err;
  EXPECT_EQ(run(generate + "--ids 1 --max-tokens 2").out, "c d\n");
  EXPECT_EQ(run(generate + "--prompt b --max-tokens 4 --stop d").out, "c \n");
  EXPECT_EQ(run(generate + "--prompt b --max-tokens 4 --stop e").out, "c d\n");
  EXPECT_EQ(run(generate + "--prompt b --prompt d --max-tokens 3").out, "c d\na b\n");
  const json list =
      json::parse(run(generate + "--prompt b --prompt c --max-tokens 4 --stop d --json").out);
  EXPECT_EQ(list[0]["text"], "c ");
  EXPECT_EQ(list[0]["finish"], "stop");
  EXPECT_EQ(list[0]["ids"], json({2, 3}));
  EXPECT_EQ(list[1]["text"], "");
  expect_refusal("hg-generate words.hgm --tokenizer none.json --prompt b", 2, "none.json");
  expect_refusal("hg-generate words.hgm --tokenizer words.hgm --prompt b", 2, "words.hgm");
  const char* none = "the model has no attachment tokenizer.json: use --tokenizer FILE, or --ids";
  expect_refusal("hg-generate words.hgm --prompt b", 4, none);
  expect_refusal("hg-generate words.hgm --ids 1 --stop b", 4, none);
  expect_refusal(generate + "--prompt b --ids 1", 1, "use either --ids, --prompt or --features");
}

TEST_F(Programs, GenerateReadsTheFilesOfTheModel) {
  const auto save_with = [&](const char* config, std::string tokenizer = kWords) {
    save(counting_words(), "words.hgm",
         {{"tokenizer.json", std::move(tokenizer)}, {"generation_config.json", config}});
  };
  save_with(R"({"eos_token_id": 4, "top_k": 50})");
  EXPECT_EQ(run("hg-generate words.hgm --ids 1").out, "2,3\n");
  EXPECT_EQ(run("hg-generate words.hgm --ids 1 --stop-id 3").out, "2\n");
  const Ran text = run("hg-generate words.hgm --prompt b");
  if (text.exit != 3) {
    EXPECT_EQ(text.out, "c d\n") << text.err;
    EXPECT_EQ(run("hg-generate words.hgm --ids 1 --stop d").out, "c \n");
    std::string other = kWords;  // b has the id 0 here
    other.replace(other.find("\"a\": 0, \"b\": 1"), 14, "\"b\": 0, \"a\": 1");
    std::ofstream(folder_ / "other.json") << other;
    EXPECT_EQ(run("hg-generate words.hgm --tokenizer other.json --prompt b").out, "a c d\n");
    save_with("{}", "{");
    expect_refusal("hg-generate words.hgm --prompt b", 2, "tokenizer.json");
  }
  save_with(R"({"eos_token_id": [3, 4]})");
  EXPECT_EQ(run("hg-generate words.hgm --ids 1").out, "2\n");
  for (const char* config : {"{}", R"({"eos_token_id": null})", R"({"eos_token_id": []})"}) {
    save_with(config);
    EXPECT_EQ(run("hg-generate words.hgm --ids 1 --max-tokens 4").out, "2,3,4,0\n") << config;
  }
  save_with(R"({"eos_token_id": [4, 7]})");  // the model cannot choose 7
  EXPECT_EQ(run("hg-generate words.hgm --ids 1").out, "2,3\n");
  save_with("[]");
  expect_refusal("hg-generate words.hgm --ids 1", 2,
                 "the attachment generation_config.json is not a JSON object");
  for (const char* id : {"-1", "\"4\"", "2147483648", "1.5", "[4, null]", "{}"}) {
    save_with(("{\"eos_token_id\": " + std::string(id) + "}").c_str());
    expect_refusal("hg-generate words.hgm --ids 1", 2,
                   "expected a token id or a list of token ids");
  }
}

TEST_F(Programs, GenerateChats) {
  const std::string chat =
      "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif "
      "%}{{ m.content }} {% endfor %}{% if not messages %}a{% endif %}";
  save(counting_words(), "words.hgm",
       {{"tokenizer.json", kWords},
        {"chat_template.jinja", chat},
        {"tokenizer_config.json", R"({"bos_token": {"content": "c"}, "eos_token": "e"})"}});
  const Ran first = run("hg-generate words.hgm --chat --prompt b --max-tokens 2");
  if (first.exit == 3) {
    EXPECT_NE(first.err.find("HG_TEXT"), std::string::npos) << first.err;
    GTEST_SKIP() << "without chat templates";
  }
  EXPECT_EQ(first.out, "c d\n") << first.err;
  const std::string json_of =
      run("hg-generate words.hgm --chat --system a --prompt b --max-tokens 2 --json").out;
  EXPECT_EQ(json::parse(json_of)["prompt_tokens"], 2) << json_of;
  EXPECT_EQ(run("hg-generate words.hgm --chat --prompt b --prompt c --max-tokens 1 --json").exit,
            0);
  // The answer to the first message is part of the second prompt: "b c d b".
  std::ofstream(folder_ / "lines.txt") << "b\n\nb\r\n";
  EXPECT_EQ(
      run("hg-generate words.hgm --chat --max-tokens 2 < lines.txt > out.txt; cat out.txt").out,
      "c d\nc d\n");
  std::ofstream(folder_ / "last.jinja")
      << "{{ bos_token }} {{ messages | length }} {{ messages[0].content }}";
  EXPECT_EQ(
      run("hg-generate words.hgm --chat --chat-template last.jinja --prompt b --max-tokens 1").out,
      "c\n");
  std::ofstream(folder_ / "no.jinja") << "{{ raise_exception('no ' ~ messages[0].role) }}";
  expect_refusal("hg-generate words.hgm --chat --chat-template no.jinja --prompt b", 4,
                 "no.jinja: line 1: the template rejects the messages: no user");
  expect_refusal("hg-generate words.hgm --chat --chat-template none.jinja --prompt b", 2,
                 "none.jinja");
  expect_refusal("hg-generate words.hgm --chat --ids 1", 1, "--chat continues texts, not --ids");
  expect_refusal("hg-generate words.hgm --chat --json", 1, "--chat --json needs --prompt");
  expect_refusal("hg-generate words.hgm --system a --prompt b", 1, "--chat");
  save(counting_words(), "words.hgm", {{"tokenizer.json", kWords}});
  expect_refusal("hg-generate words.hgm --chat --prompt b", 4,
                 "the model has no chat template: use --chat-template FILE");
  save(counting_words(), "words.hgm",
       {{"tokenizer.json", kWords}, {"tokenizer_config.json", R"({"chat_template": "b"})"}});
  EXPECT_EQ(run("hg-generate words.hgm --chat --prompt d --max-tokens 1").out, "c\n");
  save(counting_words(), "words.hgm",
       {{"tokenizer.json", kWords}, {"tokenizer_config.json", R"({"chat_template": ["b"]})"}});
  expect_refusal("hg-generate words.hgm --chat --prompt b", 2, "chat_template is not a text");
}

TEST_F(Programs, AttachmentsStayWithTheModel) {
  Graph g;
  g.output("y", linear(g.input("x", f32, {"n", 4}),
                       g.parameter("w", f32, {32, 4}, init::uniform(-1, 1, 1))));
  save(std::move(g), "net.hgm", {{"a.json", "{}"}, {"b", std::string(2000, 'b')}});
  const std::vector<float> zeros(32);
  put("y.npy", view(zeros, {1, 32}));
  EXPECT_EQ(run("hg-quantize net.hgm -o small.hgm --least 1").exit, 0);
  EXPECT_EQ(run("hg-train net.hgm --input four.npy --target y.npy --epochs 1 --batch 1 --lr 0.1 "
                "--out trained.hgm")
                .exit,
            0);
  for (const char* name : {"net.hgm", "small.hgm", "trained.hgm"}) {
    const std::string info = str_cat("hg-info ", name);
    EXPECT_NE(run(info).out.find("attached    a.json, 2 B\n  attached    b, 1.95 KiB\n"),
              std::string::npos)
        << run(info).out;
    EXPECT_EQ(json::parse(run(info + " --json").out)["attachments"],
              json::parse(R"([{"name": "a.json", "bytes": 2}, {"name": "b", "bytes": 2000}])"));
    EXPECT_EQ(must(Model::load(folder_ / name)).attachment("b")->content, std::string(2000, 'b'));
  }
}

TEST_F(Programs, GenerateRefusals) {
  save(counting_words(), "words.hgm");
  expect_refusal("hg-generate", 1, "no MODEL is given; see hg-generate --help");
  expect_refusal("hg-generate words.hgm", 1, "no prompt is given: use --ids or --prompt");
  expect_refusal("hg-generate words.hgm --ids ''", 1,
                 "--ids has no ids; write them as in --ids 5,17,3");
  expect_refusal("hg-generate words.hgm --ids ,", 1, "--ids has no ids");
  expect_refusal("hg-generate words.hgm --ids 1 --seed -1", 1,
                 "--seed: -1 is not a whole number from 0 to 18446744073709551615");
  expect_refusal("hg-generate words.hgm --ids 1 --top-k 2147483648", 1,
                 "--top-k: 2147483648 is not a whole number from -2147483648 to 2147483647");
  expect_refusal("hg-generate words.hgm --ids 1 --top-p most", 1, "--top-p: most is not a number");
  expect_refusal("hg-generate words.hgm --ids 1,x", 1, "--ids: 'x' is not a token id");
  expect_refusal("hg-generate words.hgm --ids 1,-1", 1, "'-1' is not a token id");
  expect_refusal("hg-generate words.hgm --ids 1,", 1, "--ids: '' is not a token id");
  expect_refusal("hg-generate words.hgm --ids 2147483648", 1, "'2147483648' is not a token id");
  expect_refusal("hg-generate words.hgm --ids 1 --stop-id a", 1, "--stop-id: 'a'");
  expect_refusal("hg-generate words.hgm --ids 1 --stop-id 5", 4,
                 "stop_ids has the id 5, but the vocabulary has 5 tokens");
  expect_refusal("hg-generate words.hgm --ids 1 --stop ''", 1, "--stop is empty");
  expect_refusal("hg-generate words.hgm --ids 1 --threads 1 --threads 2", 1,
                 "--threads is given 2 times; give it once");
  expect_refusal("hg-generate words.hgm --ids 1 --max-tokens -1", 1, "--max-tokens");
  expect_refusal("hg-generate words.hgm --ids 1 --top-p 2", 1, "top_p is 2");
  expect_refusal("hg-generate words.hgm --ids 1 --top-k -1", 1, "top_k is -1");
  expect_refusal("hg-generate words.hgm --ids 1 --device tpu", 1, "tpu");
  expect_refusal("hg-generate words.hgm --ids 1 --log-probabilities", 1, "--json");
  expect_refusal("hg-generate none.hgm --ids 1", 2, "none.hgm");
  expect_refusal("hg-generate text.hgm --ids 1", 2, "text.hgm");
  expect_refusal("hg-generate wide.hgm --ids 1", 3, "the input 'image' is f32[n, 4]");
  expect_refusal("hg-generate words.hgm --ids 5", 4, "the id 5, but the vocabulary has 5 tokens");
  expect_refusal("hg-generate words.hgm --ids 1 --ids 2,3", 4, "prompts have 1 to 2 ids");
}

}  // namespace
}  // namespace hg::tools
