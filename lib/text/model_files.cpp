// SPDX-License-Identifier: Apache-2.0
#include "hg/text/model_files.h"

#include <nlohmann/json.hpp>

#include "lib/graph/border.h"

namespace hg {
namespace {

// tokenizer_config.json; an empty object if the model has none.
Result<nlohmann::json> config_of(const Model& model) {
  const Model::Attachment* file = model.attachment("tokenizer_config.json");
  if (file == nullptr) return nlohmann::json::object();
  nlohmann::json config = nlohmann::json::parse(file->content, nullptr, false);
  if (!config.is_object())
    return corrupt_model("the attachment tokenizer_config.json is not a JSON object");
  return config;
}

// A text in tokenizer_config.json. Special tokens are strings, or objects with a `content`.
Result<std::string> text_of(const nlohmann::json& config, const char* name) {
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return std::string();
  const nlohmann::json& text =
      found->is_object() && found->contains("content") ? (*found)["content"] : *found;
  if (!text.is_string())
    return corrupt_model("tokenizer_config.json: ", name, " is not a text, but ", text.type_name());
  return text.get<std::string>();
}

}  // namespace

Result<Tokenizer> tokenizer_of(const Model& model) {
  const Model::Attachment* file = model.attachment("tokenizer.json");
  if (file == nullptr) return not_found("the model has no attachment tokenizer.json");
  return Tokenizer::from_json(file->content, file->name);
}

Result<ChatTemplate> chat_template_of(const Model& model) {
  return or_no_memory([&]() -> Result<ChatTemplate> {
    if (const Model::Attachment* file = model.attachment("chat_template.jinja");
        file != nullptr && !file->content.empty())
      return ChatTemplate::parse(file->content, file->name);
    HG_TRY_ASSIGN(const nlohmann::json config, config_of(model));
    HG_TRY_ASSIGN(const std::string source, text_of(config, "chat_template"));
    if (source.empty()) return not_found("the model has no chat template");
    return ChatTemplate::parse(source, "tokenizer_config.json: chat_template");
  });
}

Result<ChatOptions> chat_options_of(const Model& model) {
  return or_no_memory([&]() -> Result<ChatOptions> {
    HG_TRY_ASSIGN(const nlohmann::json config, config_of(model));
    ChatOptions options;
    HG_TRY_ASSIGN(options.bos_token, text_of(config, "bos_token"));
    HG_TRY_ASSIGN(options.eos_token, text_of(config, "eos_token"));
    nlohmann::json others = nlohmann::json::object();
    for (const char* name : {"unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
      HG_TRY_ASSIGN(std::string text, text_of(config, name));
      if (!text.empty()) others[name] = std::move(text);
    }
    if (!others.empty()) options.variables = others.dump();
    return options;
  });
}

}  // namespace hg
