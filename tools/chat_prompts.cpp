// SPDX-License-Identifier: Apache-2.0
#include "tools/chat_prompts.h"

#include <ctime>

#include "hg/text/model_files.h"

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

}  // namespace

Result<std::unique_ptr<ChatPrompts>> ChatPrompts::open(const Model& model,
                                                       const std::string& path) {
  HG_TRY_ASSIGN(ChatOptions options, chat_options_of(model));
  const std::time_t now = std::time(nullptr);
  if (const std::tm* local = std::localtime(&now)) options.now = *local;
  Result<ChatTemplate> chat = path.empty() ? chat_template_of(model) : ChatTemplate::load(path);
  if (path.empty() && chat.status().code() == Code::not_found)
    return invalid_argument(chat.status().message(), ": use --chat-template FILE");
  HG_TRY(chat.status());
  return std::unique_ptr<ChatPrompts>(new TemplatePrompts(*std::move(chat), std::move(options)));
}

}  // namespace hg::tools
