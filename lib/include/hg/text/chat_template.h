// SPDX-License-Identifier: Apache-2.0
// Prompts of conversations: the chat_template.jinja files of Hugging Face.
// These functions are in libhologram_text.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "hg/status.h"

namespace hg {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

struct ChatOptions {
  // Ends the prompt where the model's answer begins.
  bool add_generation_prompt = true;
  std::string bos_token, eos_token;  // texts of the model's special tokens
  // JSON texts. Empty: none.
  std::string tools;      // a list of functions, as in transformers
  std::string variables;  // an object: more variables of the template
  // The local time, for templates that state the date. Such templates fail without it.
  std::optional<std::tm> now;
};

// Turns a conversation into the prompt of a model. Renders a template in Jinja's language with the
// settings of transformers. Immutable and thread-safe; copies share the template.
//
// Templates are not trusted: the time, the memory and the size of a prompt are limited, and a
// template can read only the messages and options. An unsupported part of the language fails with
// its name and line.
class ChatTemplate {
 public:
  // Loads a chat_template.jinja. Fails with not_found, invalid_argument or unsupported.
  static Result<ChatTemplate> load(const std::string& path);
  // Parses the text of a template. Error messages begin with `name`.
  static Result<ChatTemplate> parse(std::string_view text,
                                    std::string_view name = "chat_template.jinja");

  // Returns the prompt. It already contains the special tokens, such as bos_token, so encode it
  // without adding them: Tokenizer::encode(prompt, false). Fails with invalid_argument if the
  // template rejects the messages, for example two of one role in a row.
  Result<std::string> render(std::span<const ChatMessage> messages,
                             const ChatOptions& options = {}) const;
  // As render(), for messages as a JSON list of objects, which may have further members.
  Result<std::string> render_json(std::string_view messages, const ChatOptions& options = {}) const;

  struct Parsed;  // internal
  explicit ChatTemplate(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}

 private:
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace hg
