// SPDX-License-Identifier: Apache-2.0
// The files of a language model that a .hgm file contains.
#include "hg/text/model_files.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hg/hg.h"
#include "tests/support/must.h"

namespace hg {
namespace {

Model with(std::vector<Model::Attachment> attachments) {
  Graph g;
  g.output("y", g.input("x", f32, {1}));
  Model model = must(Model::from_graph(std::move(g)));
  Model::Info info;
  info.attachments = std::move(attachments);
  model.set_info(std::move(info));
  return model;
}

void expect_refusal(const Status& status, Code code, std::string_view part) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(status.message().find(part), std::string_view::npos) << status.message();
}

TEST(ModelFiles, MayBeAbsent) {
  const Model model = with({});
  expect_refusal(tokenizer_of(model).status(), Code::not_found, "no attachment tokenizer.json");
  expect_refusal(chat_template_of(model).status(), Code::not_found, "no chat template");
  EXPECT_EQ(must(chat_options_of(model)).bos_token, "");
  EXPECT_TRUE(must(stop_ids_of(model)).empty());
}

TEST(ModelFiles, AreRead) {
  const char* const tokenizer =
      R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
          "post_processor": null, "decoder": null,
          "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1}}})";
  const char* const config =
      R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": "<pad>",
          "unk_token": null, "chat_template": "old"})";
  const std::vector<ChatMessage> none;
  const Model old = with({{"tokenizer.json", tokenizer},
                          {"tokenizer_config.json", config},
                          {"generation_config.json", R"({"eos_token_id": [7, 2]})"}});
  EXPECT_EQ(must(must(tokenizer_of(old)).encode("b a")), (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(must(must(chat_template_of(old)).render(none)), "old");
  EXPECT_EQ(must(chat_options_of(old)).bos_token, "<s>");
  EXPECT_EQ(must(chat_options_of(old)).eos_token, "</s>");
  EXPECT_EQ(must(stop_ids_of(old)), (std::vector<int32_t>{7, 2}));
  const Model both = with({{"tokenizer_config.json", config}, {"chat_template.jinja", "new"}});
  EXPECT_EQ(must(must(chat_template_of(both)).render(none)), "new");
  const ChatTemplate pads =
      must(ChatTemplate::parse("{{ bos_token }}{{ pad_token }}{{ unk_token }}"));
  EXPECT_EQ(must(pads.render(none, must(chat_options_of(both)))), "<s><pad>");
}

TEST(ModelFiles, MayBeDamaged) {
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  const std::string wide = "{\"bos_token\": {\"content\": " + deep +
                           "}, \"eos_token_id\": " + deep + ", \"chat_template\": " + deep + "}";
  for (const std::string& text : {std::string("["), std::string("[]"), std::string("\xff"), wide}) {
    const Model model = with({{"tokenizer.json", text},
                              {"tokenizer_config.json", text},
                              {"generation_config.json", text}});
    EXPECT_FALSE(tokenizer_of(model).ok());
    expect_refusal(chat_options_of(model).status(), Code::corrupt_model, "tokenizer_config.json");
    expect_refusal(chat_template_of(model).status(), Code::corrupt_model, "tokenizer_config.json");
    expect_refusal(stop_ids_of(model).status(), Code::corrupt_model, "generation_config.json");
  }
  expect_refusal(chat_template_of(with({{"chat_template.jinja", "{% if"}})).status(),
                 Code::invalid_argument, "chat_template.jinja");
}

}  // namespace
}  // namespace hg
