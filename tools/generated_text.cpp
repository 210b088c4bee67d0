// SPDX-License-Identifier: Apache-2.0
#include "tools/generated_text.h"

#include <ctime>

#include "hg/text/grammar.h"
#include "hg/text/model_files.h"
#include "hg/text/stop_strings.h"

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

class TokenizerText final : public GeneratedText {
 public:
  TokenizerText(Tokenizer tokenizer, const std::vector<std::string>& stops)
      : tokenizer_(std::move(tokenizer)) {
    for (const std::string& stop : stops) {
      const std::optional<int32_t> id = tokenizer_.id_of(stop);
      if (id && tokenizer_.is_special(*id))
        stop_ids_.push_back(*id);
      else
        stops_.push_back(stop);
    }
  }

  Result<std::vector<int32_t>> encode(const std::string& text, bool add_special) const override {
    return tokenizer_.encode(text, add_special);
  }
  const std::vector<int32_t>& stop_ids() const override { return stop_ids_; }

  Result<std::shared_ptr<const Constraint>> constraint(const std::string& path,
                                                       bool is_schema) const override {
    HG_TRY_ASSIGN(const Grammar grammar,
                  is_schema ? Grammar::load_json_schema(path) : Grammar::load(path));
    HG_TRY_ASSIGN(auto texts, token_texts(tokenizer_));
    return constraint_of(grammar, std::move(texts));
  }

  void begin(size_t prompts) override {
    answers_.clear();
    for (size_t i = 0; i < prompts; ++i)
      answers_.push_back({StreamDecoder(tokenizer_), StopStrings(stops_)});
  }
  Result<std::string> push(size_t prompt, int32_t id) override {
    Answer& answer = answers_[prompt];
    HG_TRY_ASSIGN(const std::string text, answer.decoder.push(id));
    return answer.stops.push(text);
  }
  Result<std::string> finish(size_t prompt) override {
    Answer& answer = answers_[prompt];
    HG_TRY_ASSIGN(const std::string rest, answer.decoder.finish());
    const std::string text = answer.stops.push(rest);
    return text + answer.stops.finish();
  }
  bool has_ended(size_t prompt) const override { return answers_[prompt].stops.found(); }

 private:
  struct Answer {
    StreamDecoder decoder;
    StopStrings stops;
  };
  Tokenizer tokenizer_;
  std::vector<std::string> stops_;
  std::vector<int32_t> stop_ids_;
  std::vector<Answer> answers_;
};

}  // namespace

Result<std::unique_ptr<GeneratedText>> GeneratedText::open(const Model& model,
                                                           const std::string& path,
                                                           const std::vector<std::string>& stops) {
  Result<Tokenizer> tokenizer = path.empty() ? tokenizer_of(model) : Tokenizer::load(path);
  if (path.empty() && tokenizer.status().code() == Code::not_found)
    return invalid_argument(tokenizer.status().message(), ": use --tokenizer FILE, or --ids");
  HG_TRY(tokenizer.status());
  return std::unique_ptr<GeneratedText>(new TokenizerText(*std::move(tokenizer), stops));
}

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
