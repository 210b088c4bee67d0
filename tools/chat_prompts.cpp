// SPDX-License-Identifier: Apache-2.0
#include "tools/chat_prompts.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "hg/text/chat_template.h"

namespace hg::tools {
namespace {

class TemplatePrompts final : public ChatPrompts {
 public:
  TemplatePrompts(ChatTemplate chat, ChatOptions options)
      : chat_(std::move(chat)), options_(std::move(options)) {}

  Result<std::string> render(const std::vector<ChatTurn>& turns) const override {
    std::vector<ChatMessage> messages;
    for (const ChatTurn& turn : turns) messages.push_back({turn.role, turn.text});
    return chat_.render(messages, options_);
  }

 private:
  ChatTemplate chat_;
  ChatOptions options_;
};

// A text in tokenizer_config.json. Special tokens are strings, or objects with a `content`.
Result<std::string> text_of(const nlohmann::json& config, const std::string& name) {
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return std::string();
  const nlohmann::json text =
      found->is_object() && found->contains("content") ? found->at("content") : *found;
  if (!text.is_string())
    return corrupt_model("tokenizer_config.json: ", name, " is not a text, but ", text.type_name());
  return text.get<std::string>();
}

}  // namespace

Result<std::unique_ptr<ChatPrompts>> ChatPrompts::open(const Model& model,
                                                       const std::string& path) {
  nlohmann::json config = nlohmann::json::object();
  if (const Model::Attachment* file = model.attachment("tokenizer_config.json")) {
    config = nlohmann::json::parse(file->content, nullptr, false);
    if (!config.is_object())
      return corrupt_model("the attachment tokenizer_config.json is not a JSON object");
  }
  ChatOptions options;
  HG_TRY_ASSIGN(options.bos_token, text_of(config, "bos_token"));
  HG_TRY_ASSIGN(options.eos_token, text_of(config, "eos_token"));
  const std::time_t now = std::time(nullptr);
  if (const std::tm* local = std::localtime(&now)) options.now = *local;
  if (!path.empty()) {
    HG_TRY_ASSIGN(ChatTemplate chat, ChatTemplate::load(path));
    return std::unique_ptr<ChatPrompts>(new TemplatePrompts(std::move(chat), std::move(options)));
  }
  std::string source, name = "chat_template.jinja";
  if (const Model::Attachment* file = model.attachment(name)) {
    source = file->content;
  } else {
    name = "tokenizer_config.json: chat_template";
    HG_TRY_ASSIGN(source, text_of(config, "chat_template"));
  }
  if (source.empty())
    return invalid_argument("the model has no chat template: use --chat-template FILE");
  HG_TRY_ASSIGN(ChatTemplate chat, ChatTemplate::parse(source, name));
  return std::unique_ptr<ChatPrompts>(new TemplatePrompts(std::move(chat), std::move(options)));
}

}  // namespace hg::tools
