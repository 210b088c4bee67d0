// SPDX-License-Identifier: Apache-2.0
// Prompts and answers of hg-generate as text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hg/generator.h"
#include "hg/model.h"

namespace hg::tools {

struct ChatTurn {
  std::string role, text;
};

class ChatPrompts {
 public:
  // Reads the template at `path` or, if `path` is empty, the model's: chat_template.jinja, or
  // chat_template in tokenizer_config.json. Fails with invalid_argument if the model has none, and
  // with unsupported in a build without HG_TEXT.
  static Result<std::unique_ptr<ChatPrompts>> open(const Model& model, const std::string& path);
  virtual ~ChatPrompts() = default;

  // Returns the prompt for the model's next answer, including special tokens.
  virtual Result<std::string> render(const std::vector<ChatTurn>& turns) const = 0;
};

class GeneratedText {
 public:
  // Reads the tokenizer.json at `path` or, if `path` is empty, the model's. Special tokens among
  // `stops` become stop ids; other stop strings end the text. Fails with invalid_argument if the
  // model has no tokenizer, and with unsupported in a build without HG_TEXT.
  static Result<std::unique_ptr<GeneratedText>> open(const Model& model, const std::string& path,
                                                     const std::vector<std::string>& stops);
  virtual ~GeneratedText() = default;

  // With `add_special`, includes the tokens that the tokenizer adds, such as the first one.
  virtual Result<std::vector<int32_t>> encode(const std::string& text, bool add_special) const = 0;
  virtual const std::vector<int32_t>& stop_ids() const = 0;

  // Of a file with a grammar (hg/text/grammar.h), or with a JSON schema.
  virtual Result<std::shared_ptr<const Constraint>> constraint(const std::string& path,
                                                               bool is_schema) const = 0;

  virtual void begin(size_t prompts) = 0;
  // Returns the text that the token adds to the answer of a prompt.
  virtual Result<std::string> push(size_t prompt, int32_t id) = 0;
  virtual Result<std::string> finish(size_t prompt) = 0;
  virtual bool has_ended(size_t prompt) const = 0;  // at a stop string
};

}  // namespace hg::tools
