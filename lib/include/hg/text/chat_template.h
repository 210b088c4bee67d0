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
  std::string tools;      // a list of functions as transformers takes them
  std::string variables;  // an object: more variables of the template
  // The local time, for templates that tell the model the date. These fail without it.
  std::optional<std::tm> now;
};

// Turns a conversation into the prompt of a model, by a template in Jinja's language, with the
// settings that transformers has. Immutable and thread-safe; copies share the template.
//
// Templates are not trusted: the time, the memory and the size of a prompt are bounded, and nothing
// outside the messages can be read. What this library lacks of the language fails with its name and
// line.
class ChatTemplate {
 public:
  // Loads a chat_template.jinja. Fails with not_found, invalid_argument or unsupported.
  static Result<ChatTemplate> load(const std::string& path);
  // Reads the text of a template. `name` begins error messages.
  static Result<ChatTemplate> parse(std::string_view text,
                                    std::string_view name = "chat_template.jinja");

  // The prompt. It holds the special tokens, such as bos_token: encode it without adding more
  // (Tokenizer::encode(prompt, false)). Fails with invalid_argument if the template rejects the
  // messages, for example two of one role in a row.
  Result<std::string> render(std::span<const ChatMessage> messages,
                             const ChatOptions& options = {}) const;
  // As render(), of a JSON list of objects, which may have more than a role and a content.
  Result<std::string> render_json(std::string_view messages, const ChatOptions& options = {}) const;

  struct Parsed;  // internal
  explicit ChatTemplate(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}

 private:
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace hg
